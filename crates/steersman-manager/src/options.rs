//! Words: what a manager can be told.

use std::time::Duration;

use steersman_controller::Clock;

/// What a manager can be told; set through [`ManagerBuilder`](crate::ManagerBuilder).
#[derive(Clone)]
pub(crate) struct ManagerOptions {
    /// How long everything together may take to stop; `None` is as long as it takes.
    pub(crate) grace: Option<Duration>,
    /// Where controllers, caches and queues count what they do.
    pub(crate) registry: prometheus::Registry,
    /// Wall time, as reconcilers see it.
    pub(crate) clock: Clock,
}

/// The grace period unless another one is set: what a pod is given by default.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);

impl std::fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
