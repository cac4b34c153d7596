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
    /// Signs the writes of controllers that were declared without a field manager.
    pub(crate) field_manager: Option<String>,
    /// Wall time, as reconcilers see it.
    pub(crate) clock: Clock,
}

/// The grace period unless another one is set: what a pod is given by default.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// How long those have, all together, who were never asked to stop because others took all of the grace.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// What controllers leave of the grace for what stops after them, at most.
const LONGEST_MARGIN: Duration = Duration::from_secs(5);

impl ManagerOptions {
    /// What reconciles may take: a reconcile that hangs is dropped while there is time for the rest to stop
    /// in order.
    pub(crate) fn reconcile_grace(&self) -> Option<Duration> {
        self.grace
            .map(|grace| grace.saturating_sub(LONGEST_MARGIN.min(grace / 5)))
    }

    /// What those have, all together, who were not asked to stop within the grace. Who waits for nobody does
    /// not wait for them.
    pub(crate) fn last_moment(&self) -> Duration {
        self.grace
            .map_or(LAST_MOMENT, |grace| grace.min(LAST_MOMENT))
    }
}

impl std::fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
