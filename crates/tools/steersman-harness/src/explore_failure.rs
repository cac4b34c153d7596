//! Words: an exploration that found something, or could not run.

use steersman_testenv::apiserver::explore::engine::{ExploreReport, tell};

/// What an exploration found. `Debug` prints the same text as `Display`, the stories of all findings, because a failed
/// `unwrap` prints `Debug`.
#[derive(derive_more::Debug, thiserror::Error)]
#[debug("{self}")]
#[error("{}", told(report))]
pub struct ExploreFailure {
    /// The whole result.
    pub report: Box<ExploreReport>,
}

fn told(report: &ExploreReport) -> String {
    let stories = report
        .findings
        .iter()
        .map(|finding| tell(finding, &report.command_for(finding)));
    let stories: Vec<String> = stories.collect();
    format!("{}\n{}", stories.join("\n"), report.summary())
}
