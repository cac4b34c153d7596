//! A figure: what was measured, beside whom, and what is wanted of it.
//!
//! `steersman-bench` prints one as a line of JSON, and `docs/benchmarks.json` keeps them.

use serde::{Deserialize, Serialize};

/// One figure of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// By which later runs find it, with `at`.
    pub(crate) id: String,
    /// What was measured, for people.
    pub(crate) what: String,
    /// With how many objects, where the same is measured with several numbers of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<u64>,
    pub(crate) unit: String,
    #[serde(default, skip_serializing_if = "Better::is_less")]
    pub(crate) better: Better,
    pub(crate) own: Spread,
    /// Others that did the same work in the same run; the first is the one that is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) peers: Vec<Peer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<Target>,
    /// Whether a check holds it to its target: of figures that do not depend on the machine, such as
    /// numbers of requests and shares of another figure of the same run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) guard: bool,
    /// The ratio below which a check fails. Only the file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<f64>,
    /// What a check holds a guarded figure to. Only the file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<Target>,
}

/// Which figures are the better ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    #[default]
    Less,
    More,
}

/// Median, least and most of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) runs: u32,
}

/// Somebody else at the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) figure: Spread,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// So many times better than the first peer.
    Ratio(f64),
}

/// A figure may be worse than when it was noted by this share: runs differ, machines more.
const SLACK: f64 = 0.2;

impl Better {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes what it may skip by reference"
    )]
    fn is_less(&self) -> bool {
        *self == Self::Less
    }
}

impl Figure {
    /// How many times better it is than the first peer's.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let peer = self.peers.first()?.figure.median;
        Some(match self.better {
            Better::Less => peer / self.own.median,
            Better::More => self.own.median / peer,
        })
    }

    /// Whether what is wanted is there; `None` where nothing is.
    pub(crate) fn met(&self) -> Option<bool> {
        Some(self.meets(self.target?))
    }

    /// Whether it is as good as that.
    pub(crate) fn meets(&self, wanted: Target) -> bool {
        match wanted {
            Target::AtMost(most) => self.own.median <= most,
            Target::AtLeast(least) => self.own.median >= least,
            Target::Ratio(times) => self.ratio().is_some_and(|ratio| ratio >= times),
        }
    }

    /// Whether a check holds it to anything.
    pub(crate) fn is_held(&self) -> bool {
        self.bound.is_some() || self.guard
    }

    /// The ratio below which it fails from here on: a fifth less than it is, and no more than what is
    /// wanted.
    pub(crate) fn bound_from_here(&self) -> Option<f64> {
        let bound = less(self.ratio()?);
        Some(match self.target {
            Some(Target::Ratio(wanted)) => bound.min(wanted),
            _ => bound,
        })
    }

    /// What a check holds it to where it is guarded: its target, or where that was missed, what it was
    /// and a fifth more.
    pub(crate) fn limit(&self) -> Option<Target> {
        let target = self.target.filter(|_| self.guard)?;
        Some(match self.limit {
            Some(limit) => limit,
            None if self.meets(target) => target,
            None => match target {
                Target::AtMost(_) => Target::AtMost(more(self.own.median)),
                Target::AtLeast(_) => Target::AtLeast(less(self.own.median)),
                Target::Ratio(wanted) => Target::Ratio(self.ratio().map_or(wanted, less)),
            },
        })
    }

    /// Whether another measures the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.at == other.at
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        match self.at {
            Some(objects) => format!("{} at {}", self.id, grouped(objects)),
            None => self.id.clone(),
        }
    }
}

impl Spread {
    /// For instance `0.87 s (0.78 to 0.93)`.
    pub(crate) fn show(&self, unit: &str) -> String {
        let digits = digits(self.median);
        let Self {
            median,
            least,
            most,
            runs,
        } = self;
        let figure = with_unit(&format!("{median:.digits$}"), unit);
        if *runs < 2 {
            return figure;
        }
        format!("{figure} ({least:.digits$} to {most:.digits$})")
    }

    /// The median alone.
    pub(crate) fn brief(&self, unit: &str) -> String {
        let digits = digits(self.median);
        with_unit(&format!("{:.digits$}", self.median), unit)
    }
}

impl Target {
    /// For instance `at most 50 ms`.
    pub(crate) fn show(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("at most {}", plain(most, unit)),
            Self::AtLeast(least) => format!("at least {}", plain(least, unit)),
            Self::Ratio(times) => format!("{times}x"),
        }
    }

    /// The one of both that is harder to meet. Where what is wanted is of another sort by now, what was
    /// wanted before says nothing of it.
    pub(crate) fn or_harder(self, before: Self) -> Self {
        match (self, before) {
            (Self::AtMost(now), Self::AtMost(before)) => Self::AtMost(now.min(before)),
            (Self::AtLeast(now), Self::AtLeast(before)) => Self::AtLeast(now.max(before)),
            (Self::Ratio(now), Self::Ratio(before)) => Self::Ratio(now.max(before)),
            _ => self,
        }
    }
}

fn less(figure: f64) -> f64 {
    ((1.0 - SLACK) * figure * 100.0).floor() / 100.0
}

fn more(figure: f64) -> f64 {
    ((1.0 + SLACK) * figure * 100.0).ceil() / 100.0
}

/// What is wanted is a round number, or one that was reckoned from others.
fn plain(figure: f64, unit: &str) -> String {
    let rounded = (figure * 100.0).round() / 100.0;
    with_unit(&rounded.to_string(), unit)
}

/// A number with its unit; a percent sign is set as one.
fn with_unit(number: &str, unit: &str) -> String {
    match unit {
        "" => number.to_owned(),
        unit => format!("{number} {unit}"),
    }
}

/// Three digits of a figure say what there is to say.
fn digits(figure: f64) -> usize {
    match figure.abs() {
        0.0 => 0,
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    }
}

/// For instance `200,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
