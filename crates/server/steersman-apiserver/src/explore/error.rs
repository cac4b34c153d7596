//! Words: why a world cannot run.

use std::time::Duration;

use steersman_apimachinery::status::Status;

/// Why a world cannot run. A problem of the operator itself is no such error but a finding.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The server refuses an initial object.
    #[error("the server refuses the initial object {object}")]
    Initial {
        /// The kind and name of the object.
        object: String,
        /// The refusal.
        source: Box<Status>,
    },
    /// The server refuses a step of the user, in an undisturbed world.
    #[error("step {number}: the user {step}, which the server refuses")]
    Step {
        /// The number of the step, from 1.
        number: usize,
        /// What the user does.
        step: String,
        /// The refusal.
        source: Box<Status>,
    },
    /// The operator does not start.
    #[error("the operator does not start")]
    Start {
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operator has ended before its first request.
    #[error(
        "the operator ended before its first request: {how}; it must run until it is killed{output}"
    )]
    Ended {
        /// How it ended, such as `exit code 1`.
        how: String,
        /// What the operator printed, on lines of its own; empty if it printed nothing.
        output: String,
    },
    /// The operator has sent no request within the patience of the scenario, or 30 s if that is longer.
    #[error(
        "the operator has sent no request within {within:?}; it must read the kubeconfig that the environment variable \
         KUBECONFIG names{output}"
    )]
    NoRequest {
        /// How long the operator had.
        within: Duration,
        /// What the operator printed, on a line of its own; empty if it printed nothing.
        output: String,
    },
}

impl ExploreError {
    /// Returns whether the server refused an object or a step of the user. A shorter scenario, or another desired state, may
    /// be one that no server accepts.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Initial { .. } | Self::Step { .. })
    }
}
