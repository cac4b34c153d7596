//! Words: the options of a controller's queue and workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_workqueue::RateLimiter;

/// The source of the time of day of a controller; tests pass a clock of their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The options that a builder collects besides the watches.
pub(crate) struct Options<R> {
    pub(crate) max_concurrent_reconciles: usize,
    /// How long the first syncs may take; `None` is no limit.
    pub(crate) require_sync: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) deadline_grace: Duration,
    pub(crate) rate_limiter: Option<Box<dyn RateLimiter<R>>>,
}

impl<R> Default for Options<R> {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: 1,
            require_sync: None,
            deadline: None,
            deadline_grace: Duration::from_secs(5),
            rate_limiter: None,
        }
    }
}

impl<R> fmt::Debug for Options<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_concurrent_reconciles", &self.max_concurrent_reconciles)
            .field("require_sync", &self.require_sync)
            .field("deadline", &self.deadline)
            .field("deadline_grace", &self.deadline_grace)
            .finish_non_exhaustive()
    }
}
