//! Words: the action that a successful reconcile returns: whether and when its request runs again.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_workqueue::Priority;

/// When the controller runs a request again after a successful reconcile; controller-runtime's `Result`.
///
/// Success forgets earlier failures of the request. An event that arrives before the requested time
/// runs the request earlier, and only the result of that run decides what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "return the action from `reconcile`"]
pub struct Action {
    pub(crate) requeue: Option<Requeue>,
    pub(crate) priority: Option<Priority>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requeue {
    After(Duration),
    At(Timestamp),
}

impl Action {
    /// Returns the action that asks for no later run: the request runs again when a watched object changes.
    pub const fn done() -> Self {
        Self::of(None)
    }

    /// Runs the request again after `delay`, even if nothing changes. Zero runs it again at once.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self::of(Some(Requeue::After(delay)))
    }

    /// Runs the request again when the clock of [`Context::now`](crate::Context::now) shows `time`; at once if `time`
    /// has passed.
    pub const fn requeue_at(time: Timestamp) -> Self {
        Self::of(Some(Requeue::At(time)))
    }

    /// Sets the priority of the requested run; controller-runtime's `Result.Priority`. By default the requested run has
    /// the priority of the run that returns the action, so the requests of an initial list stay of low priority.
    ///
    /// If an event arrives before the requested time, the higher of the two priorities counts. The priority of an
    /// action that requests no run has no effect.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use steersman_controller::{Action, Priority};
    ///
    /// // A check that can wait while other requests are ready.
    /// let action = Action::requeue_after(Duration::from_secs(60)).priority(Priority::LOW);
    /// ```
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    const fn of(requeue: Option<Requeue>) -> Self {
        Self {
            requeue,
            priority: None,
        }
    }
}
