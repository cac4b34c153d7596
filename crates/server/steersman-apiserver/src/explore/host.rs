//! Handle: a caller's way to start and kill the processes of an operator.

use async_trait::async_trait;
use serde_json::Value;
use steersman_auth::User;

use super::error::ExploreError;

/// Starts and kills the processes of an operator in one world.
#[async_trait]
pub trait OperatorHost: Send + Sync {
    /// Starts a process. Its requests must be those of `user`. `process` counts from 1 and is never reused.
    ///
    /// # Errors
    /// [`ExploreError::Start`].
    ///
    /// # Cancel safety
    /// Is not dropped before it has ended.
    async fn start(&self, process: usize, user: User) -> Result<(), ExploreError>;

    /// Kills a process, and returns when it has ended. Does nothing if the process has ended.
    ///
    /// # Cancel safety
    /// Is not dropped before it has ended.
    async fn kill(&self, process: usize);

    /// Pauses a process until it is resumed. A host that cannot pause does nothing: the server holds the process's
    /// request back in any case.
    ///
    /// # Cancel safety
    /// Is not dropped before it has ended.
    async fn pause(&self, process: usize);

    /// Lets a paused process continue.
    ///
    /// # Cancel safety
    /// Is not dropped before it has ended.
    async fn resume(&self, process: usize);

    /// Waits until a process ends by itself.
    ///
    /// # Cancel safety
    /// Safe: an end that was not returned is returned by the next call.
    async fn ended(&self) -> ProcessEnd;

    /// Returns the last lines that a process printed.
    fn output(&self, process: usize) -> Vec<String>;

    /// Returns how the reconciles of the running processes end. Default: unknown, which counts as without problems.
    fn reconciles(&self) -> ReconcileOutcomes {
        ReconcileOutcomes::default()
    }

    /// Lists the records that the operator keeps outside of the cluster, as objects. They are compared with those of the
    /// reference like the objects of the server. Default: none.
    fn records(&self) -> Vec<Value> {
        Vec::new()
    }
}

/// How the reconciles of an operator end, as far as its host can see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReconcileOutcomes {
    /// The requests of which the last reconcile failed, each with its error.
    pub failing: Vec<String>,
    /// The texts of panics.
    pub panics: Vec<String>,
}

/// The end of a process that was not killed.
#[derive(Debug, Clone)]
pub struct ProcessEnd {
    /// The number of the process.
    pub process: usize,
    /// How it ended, such as `exit code 1`.
    pub how: String,
}
