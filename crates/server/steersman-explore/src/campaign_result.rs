//! Words: how far an exploration is, and what it has found.

use std::time::Duration;

use crate::finding::Finding;
use crate::report::{DesiredReport, ExploreReport, PointReport};

/// How far an exploration is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CampaignProgress {
    /// The number of worlds that have ended, those of the reference, repeats and shrinking included.
    pub worlds: usize,
    /// The number of points that are planned so far, pairs included.
    pub planned: usize,
    /// The number of planned points that were tried.
    pub tried: usize,
    /// The number of findings so far.
    pub found: usize,
}

/// What an exploration has found.
#[derive(Debug)]
pub struct CampaignResult {
    /// The findings, in the order of their discovery.
    pub findings: Vec<Finding>,
    /// Each point that was tried.
    pub points: Vec<PointReport>,
    /// The points that were not tried because the budget ended.
    pub not_tried: Vec<String>,
    /// The parts of the state that differ from run to run, so that they are not compared.
    pub varying: Vec<String>,
    /// The writes of the reference, as the points number them.
    pub writes: Vec<String>,
    /// What other desired states showed.
    pub desired_states: DesiredReport,
    /// The requests that differ between two undisturbed worlds with the same seed, if that was asked for.
    pub unrepeatable: Vec<String>,
    /// The progress at the end.
    pub progress: CampaignProgress,
}

impl CampaignResult {
    /// Returns the result as a report. `scenario` and `operator` name what was explored, and `again` is the command that
    /// repeats a finding, with `{name}` in place of its name.
    #[must_use]
    pub fn into_report(
        self,
        scenario: String,
        operator: String,
        time: Duration,
        again: String,
    ) -> ExploreReport {
        ExploreReport {
            scenario,
            operator,
            worlds: self.progress.worlds,
            writes: self.writes.len(),
            time,
            points: self.points,
            not_tried: self.not_tried,
            varying: self.varying,
            desired_states: self.desired_states,
            unrepeatable: self.unrepeatable,
            findings: self.findings,
            again,
        }
    }
}
