//! Words: what a successful reconcile asks for next.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// What follows a successful reconcile.
///
/// Success forgets earlier failures of the request. An event that arrives before the requested time
/// runs the request earlier, and only the result of that run decides what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "return the action from `reconcile`"]
pub struct Action {
    pub(crate) requeue: Option<Requeue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requeue {
    After(Duration),
    At(Timestamp),
}

impl Action {
    /// Requests nothing: the request runs again when something changes.
    pub const fn done() -> Self {
        Self { requeue: None }
    }

    /// Runs the request again after `delay`, even if nothing changes. Zero runs it again at once.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self {
            requeue: Some(Requeue::After(delay)),
        }
    }

    /// Runs the request again at `time`, by the clock of [`Context::now`](crate::Context::now). A time in
    /// the past runs it again at once.
    pub const fn requeue_at(time: Timestamp) -> Self {
        Self {
            requeue: Some(Requeue::At(time)),
        }
    }
}
