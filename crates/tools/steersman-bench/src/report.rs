//! Words: the figures of a measurement, with those of other libraries and the targets.

use std::fmt;

use serde::Serialize;

/// One figure of a table. `cargo xtask bench` reads it and checks the target.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// The identifier, together with `at`: the table and a name in it.
    id: String,
    what: String,
    /// The number of objects, if the same is measured with several numbers.
    at: Option<u64>,
    unit: &'static str,
    better: Better,
    own: Spread,
    peers: Vec<Peer>,
    target: Option<BenchTarget>,
    guard: bool,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Better {
    Less,
    More,
}

/// Another library at the same work.
#[derive(Debug, Serialize)]
struct Peer {
    name: &'static str,
    figure: Spread,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum BenchTarget {
    AtMost(f64),
    AtLeast(f64),
    Ratio(f64),
}

/// The median, minimum and maximum of several runs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
    runs: u32,
}

/// The reflector, the controller and the watcher of kube-runtime.
pub(crate) const KUBE_RUNTIME: &str = "kube-runtime";

/// The same in JSON, where the kind is sent in protobuf.
pub(crate) const IN_JSON: &str = "in JSON";

impl Figure {
    /// Creates a figure for which less is better.
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

    /// Creates a figure of runs of this workspace, each with a run of kube-runtime beside it.
    pub(crate) fn compared<T>(
        id: &str,
        what: impl Into<String>,
        unit: &'static str,
        runs: &[[T; 2]],
        of: impl Fn(&T) -> f64,
    ) -> Self {
        let [own, peer] = [0, 1].map(|side| Spread::over(runs, |run| of(&run[side])));
        Self::new(id, what, unit, own).beside(KUBE_RUNTIME, peer)
    }

    /// Sets the number of objects, or of seconds, of one figure of a series.
    pub(crate) fn at(mut self, objects: u64) -> Self {
        self.at = Some(objects);
        self
    }

    /// Marks a figure for which more is better, such as a rate.
    pub(crate) fn more_is_better(mut self) -> Self {
        self.better = Better::More;
        self
    }

    /// Adds the figure of another library in the same run; the ratio refers to the first.
    pub(crate) fn beside(mut self, name: &'static str, figure: Spread) -> Self {
        self.peers.push(Peer { name, figure });
        self
    }

    pub(crate) fn at_most(mut self, most: f64) -> Self {
        self.target = Some(BenchTarget::AtMost(most));
        self
    }

    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.target = Some(BenchTarget::AtLeast(least));
        self
    }

    /// Sets the target as a factor by which the figure is better than that of the first other library.
    pub(crate) fn ratio(mut self, times: f64) -> Self {
        self.target = Some(BenchTarget::Ratio(times));
        self
    }

    /// Marks a target that does not depend on the machine: a check fails if it is missed.
    pub(crate) fn guarded(mut self) -> Self {
        self.guard = true;
        self
    }
}

/// One line for the terminal, printed as soon as the figure is known.
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

/// The median, with minimum and maximum if they differ.
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
    /// Returns the spread of at least one figure.
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

    pub(crate) fn over<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> Self {
        Self::of(runs.iter().map(figure).collect())
    }

    pub(crate) fn one(figure: f64) -> Self {
        Self::of(vec![figure])
    }
}
