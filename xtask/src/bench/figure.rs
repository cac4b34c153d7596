//! A figure: a measurement, those of its peers, and its target.
//!
//! `steersman-bench` prints figures as lines of JSON, and `docs/benchmarks.json` stores them.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Identifies the figure in later runs, together with `at`.
    pub(crate) id: String,
    pub(crate) what: String,
    /// The number of objects, if the figure is measured with several numbers of objects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) at: Option<u64>,
    pub(crate) unit: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) better: Better,
    pub(crate) own: Spread,
    /// Other programs that did the same work in the same run; the first is compared with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) peers: Vec<Peer>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) target: Option<Target>,
    /// Whether a check fails if the target is missed. Set for figures that do not depend on the machine,
    /// such as numbers of requests or shares of another figure of the same run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) guard: bool,
    /// The ratio below which a check fails. Only the saved results hold it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) bound: Option<f64>,
    /// The limit of a guarded figure, beyond which a check fails. Only the saved results hold it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) limit: Option<Target>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    #[default]
    Less,
    More,
}

/// The median, minimum and maximum of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) runs: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) figure: Spread,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// At least this factor better than the first peer.
    Ratio(f64),
}

/// The share by which a figure may be worse than the saved one, because runs and machines differ.
const SLACK: f64 = 0.2;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Figure {
    /// Returns the factor by which the figure is better than that of the first peer.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let peer = self.peers.first()?.figure.median;
        Some(match self.better {
            Better::Less => peer / self.own.median,
            Better::More => self.own.median / peer,
        })
    }

    /// Returns whether the target is met, or `None` without a target.
    pub(crate) fn met(&self) -> Option<bool> {
        Some(self.meets(self.target?))
    }

    pub(crate) fn meets(&self, wanted: Target) -> bool {
        match wanted {
            Target::AtMost(most) => self.own.median <= most,
            Target::AtLeast(least) => self.own.median >= least,
            Target::Ratio(times) => self.ratio().is_some_and(|ratio| ratio >= times),
        }
    }

    /// Returns whether a check can fail because of this figure.
    pub(crate) fn is_held(&self) -> bool {
        self.bound.is_some() || self.guard
    }

    /// Returns the ratio below which later runs fail: a fifth below the measured ratio, and at most the target.
    pub(crate) fn bound_from_here(&self) -> Option<f64> {
        let bound = less(self.ratio()?);
        Some(match self.target {
            Some(Target::Ratio(wanted)) => bound.min(wanted),
            _ => bound,
        })
    }

    /// Returns the limit of a guarded figure: its target, or if the target is missed, a value that is a
    /// fifth worse than the measured one.
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

    /// Returns whether both are the same figure of two runs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.at == other.at
    }

    pub(crate) fn name(&self) -> String {
        match self.at {
            Some(objects) => format!("{} at {}", self.id, grouped(objects)),
            None => self.id.clone(),
        }
    }
}

impl Spread {
    /// Formats the spread, for example as `0.87 s (0.78 to 0.93)`.
    pub(crate) fn show(&self, unit: &str) -> String {
        let figure = self.brief(unit);
        if self.runs < 2 {
            return figure;
        }
        let digits = digits(self.median);
        let Self { least, most, .. } = self;
        format!("{figure} ({least:.digits$} to {most:.digits$})")
    }

    pub(crate) fn brief(&self, unit: &str) -> String {
        let digits = digits(self.median);
        with_unit(&format!("{:.digits$}", self.median), unit)
    }
}

impl Target {
    /// Formats the target, for example as `at most 50 ms`.
    pub(crate) fn show(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("at most {}", plain(most, unit)),
            Self::AtLeast(least) => format!("at least {}", plain(least, unit)),
            Self::Ratio(times) => format!("{}x", (times * 100.0).round() / 100.0),
        }
    }

    /// Returns the stricter of two targets. If they are of different sorts, the new one is returned.
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

/// Formats a target with at most two decimals.
fn plain(figure: f64, unit: &str) -> String {
    let rounded = (figure * 100.0).round() / 100.0;
    with_unit(&rounded.to_string(), unit)
}

fn with_unit(number: &str, unit: &str) -> String {
    match unit {
        "" => number.to_owned(),
        unit => format!("{number} {unit}"),
    }
}

/// Returns the number of decimals for three significant digits.
fn digits(figure: f64) -> usize {
    match figure.abs() {
        0.0 => 0,
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    }
}

/// Returns what the numbers of a series of figures count: seconds in the table `steady`, or else objects.
pub(crate) fn series(id: &str) -> &'static str {
    if id.starts_with("steady/") {
        "seconds"
    } else {
        "objects"
    }
}

/// Formats a number with separators, for example as `200,000`.
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
