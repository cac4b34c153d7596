//! Words: figures, beside those of peers, and what is wanted of them: the lines that a measurement prints.

use std::fmt;

use serde::Serialize;

/// One figure of a table. `cargo xtask bench` reads it, and decides whether what is wanted is there.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// By which later runs find it, with `at`: the table and a name in it.
    id: String,
    /// What was measured, for people.
    what: String,
    /// With how many objects, where the same is measured with several numbers of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    unit: &'static str,
    better: Better,
    own: Spread,
    peers: Vec<Peer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    guard: bool,
}

/// Which figures are the better ones.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Better {
    Less,
    More,
}

/// Somebody else at the same work.
#[derive(Debug, Serialize)]
struct Peer {
    name: &'static str,
    figure: Spread,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Target {
    AtMost(f64),
    AtLeast(f64),
    Ratio(f64),
}

/// Median, least and most of several runs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
    runs: u32,
}

/// The reflector, the controller and the watcher of kube-runtime.
pub(crate) const KUBE_RUNTIME: &str = "kube-runtime";

impl Figure {
    /// A figure that is better the less it is.
    pub(crate) fn new(id: &str, what: impl Into<String>, unit: &'static str, own: Spread) -> Self {
        Self {
            id: id.to_owned(),
            what: what.into(),
            at: None,
            unit,
            better: Better::Less,
            own,
            peers: Vec::new(),
            target: None,
            guard: false,
        }
    }

    /// With how many objects it was measured, or after how many seconds, as one of several.
    #[must_use]
    pub(crate) fn at(mut self, objects: u64) -> Self {
        self.at = Some(objects);
        self
    }

    /// More is better, as of rates.
    #[must_use]
    pub(crate) fn more_is_better(mut self) -> Self {
        self.better = Better::More;
        self
    }

    /// Who else did it in the same run; the ratio is to the first.
    #[must_use]
    pub(crate) fn beside(mut self, name: &'static str, figure: Spread) -> Self {
        self.peers.push(Peer { name, figure });
        self
    }

    #[must_use]
    pub(crate) fn at_most(mut self, most: f64) -> Self {
        self.target = Some(Target::AtMost(most));
        self
    }

    #[must_use]
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.target = Some(Target::AtLeast(least));
        self
    }

    /// So many times better than the first peer.
    #[must_use]
    pub(crate) fn ratio(mut self, times: f64) -> Self {
        self.target = Some(Target::Ratio(times));
        self
    }

    /// The target does not depend on the machine: a check fails where it is missed.
    #[must_use]
    pub(crate) fn guarded(mut self) -> Self {
        self.guard = true;
        self
    }
}

/// One line for the terminal, which shows each figure as soon as it is there.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if let Some(at) = self.at {
            write!(f, " with {at}")?;
        }
        let (own, unit) = (&self.own, self.unit);
        write!(f, ": {own}")?;
        if !unit.is_empty() {
            write!(f, " {unit}")?;
        }
        for peer in &self.peers {
            write!(f, ", {} {}", peer.name, peer.figure)?;
        }
        write!(f, " ({})", self.what)
    }
}

/// The median, with the least and the most where they differ.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.median)?;
        if self.runs > 1 {
            write!(f, " [{:.4} to {:.4}]", self.least, self.most)?;
        }
        Ok(())
    }
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(figures.len() / 2),
            least: at(0),
            most: at(figures.len().saturating_sub(1)),
            runs: u32::try_from(figures.len()).unwrap_or(u32::MAX),
        }
    }

    /// Of the same figure of each run.
    pub(crate) fn over<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> Self {
        Self::of(runs.iter().map(figure).collect())
    }

    /// Of one run.
    pub(crate) fn one(figure: f64) -> Self {
        Self::of(vec![figure])
    }
}
