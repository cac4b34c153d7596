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
    /// The points that were tried, in order.
    pub points: Vec<PointReport>,
    /// The names of the perturbations that were planned and not tried, because the budget ended.
    pub not_tried: Vec<String>,
    /// The parts of the state that vary from run to run, and are compared by place only.
    pub varying: Vec<String>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The command that repeats a finding, with `{name}` in place of its name.
    pub again: String,
}

/// A point that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointReport {
    /// The perturbations of the world: one, or those of a pair.
    pub perturbations: Vec<Perturbation>,
    /// How the world ended.
    pub outcome: PointOutcome,
    /// How long the world ran.
    pub time: Duration,
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
}

/// The numbers of points of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PointCounts {
    pub(crate) tried: usize,
    pub(crate) found: usize,
    pub(crate) not_reached: usize,
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
            }
        }
        counts
    }
}
