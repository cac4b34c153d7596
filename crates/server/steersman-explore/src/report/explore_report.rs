//! Words: the result of an exploration.

use std::time::Duration;

use crate::finding::Finding;
use crate::perturbation::{Perturbation, join};

/// The result of an exploration, which prints itself for a terminal, for CI systems and for a browser.
#[derive(Debug, Clone, Default)]
pub struct ExploreReport {
    /// The name of the scenario, such as the path of its file.
    pub scenario: String,
    /// The command of the operator, or the name of the test.
    pub operator: String,
    /// The number of worlds that ran, with those of the reference, of repeats and of shrinking.
    pub worlds: usize,
    /// How long the exploration took.
    pub time: Duration,
    /// The number of writes of the operator in the undisturbed run.
    pub writes: usize,
    /// The points that were tried, in order.
    pub points: Vec<PointReport>,
    /// The names of the perturbations that were planned and not tried, because the budget ended.
    pub not_tried: Vec<String>,
    /// The parts of the state that vary from run to run, and are compared by place only.
    pub varying: Vec<String>,
    /// What other desired states showed.
    pub desired_states: DesiredReport,
    /// The requests that differ between two undisturbed worlds with the same seed: the operator takes time or randomness
    /// from elsewhere than its manager. Only looked for on paused clocks.
    pub unrepeatable: Vec<String>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The command that repeats a finding, with `{name}` in place of its name.
    pub again: String,
}

/// What other desired states of custom resources showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredReport {
    /// The fields of which no change had an effect, with their kinds, such as `Site spec.note`.
    pub without_effect: Vec<String>,
    /// The changed states that the operator cannot reach, each with the reason; only the way back was tried.
    pub unreachable: Vec<String>,
    /// The objects of which no change was tried, because the scenario goes wrong without a change if it ends where changes
    /// begin, each with the problem.
    pub untried: Vec<String>,
    /// The changes that were not tried because they would change a skipped field, too.
    pub skipped: Vec<String>,
    /// The chosen fields that no kind has: a mistake in the scenario.
    pub unmatched: Vec<String>,
    /// The number of changes beyond the maximum for one object, which were not tried.
    pub left_out: usize,
}

/// A point that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointReport {
    /// The perturbations of the world: one, or those of a pair.
    pub perturbations: Vec<Perturbation>,
    /// What another desired state changes, such as `spec.replicas: 3 instead of 2`; empty for other points.
    pub change: String,
    /// How the world ended.
    pub outcome: PointOutcome,
    /// How long the world ran, or all worlds of a desired state.
    pub time: Duration,
    /// A digest of the requests of the world, with their times and contents: equal for equal logs. For a desired state that of its last
    /// world; 0 if none has ended.
    pub log: u64,
}

/// How the world of a point ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointOutcome {
    /// All expectations hold.
    Passed,
    /// An expectation is violated. The finding has the name of the point, or lists it in [`Finding::also`].
    Found,
    /// The operator did not come to the point, so that nothing was perturbed.
    NotReached,
    /// The server refused the desired state of the point.
    Refused,
}

/// The numbers of points of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PointCounts {
    pub(crate) tried: usize,
    pub(crate) found: usize,
    pub(crate) not_reached: usize,
    pub(crate) refused: usize,
}

impl ExploreReport {
    /// Returns the number of points that were planned: those that were tried, and those that were not.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.points.len() + self.not_tried.len()
    }

    /// Returns the command that repeats a finding.
    #[must_use]
    pub fn command_for(&self, finding: &Finding) -> String {
        self.again.replace("{name}", &finding.name())
    }
}

impl PointReport {
    /// Returns the perturbations as `--only` takes them; `reference` for the undisturbed run.
    #[must_use]
    pub fn name(&self) -> String {
        join(&self.perturbations)
    }
}

impl PointCounts {
    pub(crate) fn of<'a>(points: impl IntoIterator<Item = &'a PointReport>) -> Self {
        let mut counts = Self::default();
        for point in points {
            counts.tried += 1;
            match point.outcome {
                PointOutcome::Passed => {}
                PointOutcome::Found => counts.found += 1,
                PointOutcome::NotReached => counts.not_reached += 1,
                PointOutcome::Refused => counts.refused += 1,
            }
        }
        counts
    }
}
