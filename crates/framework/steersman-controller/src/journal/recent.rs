//! Words: the record of a reconcile that has ended, as the status of a controller shows it.

use std::time::{Duration, Instant};

use crate::journal::ReconcileStep;

/// The record of a reconcile that has ended, as [`ControllerStatus::recent`](crate::ControllerStatus::recent) returns
/// it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecentReconcile {
    /// The number of the reconcile, unique within its controller.
    pub id: u64,
    /// The request as text; for a request about an object, the key of the object.
    pub request: String,
    /// Why the reconcile ran, as [`RunReason`](crate::RunReason) prints it.
    pub reason: String,
    /// The number of consecutive failures of the request before this reconcile.
    pub attempt: u32,
    /// How the reconcile ended: with success, an error, a panic or a timeout.
    pub result: ReconcileResult,
    /// How long the reconcile took.
    pub time: Duration,
    /// When the reconcile ended.
    pub ended: Instant,
    /// The time from the end of this reconcile to the next run, if no event requests an earlier run; `None` if no run
    /// is planned.
    pub next_in: Option<Duration>,
    /// The first writes and waits of the reconcile, in the order of their ends; empty without a debug page.
    pub steps: Vec<ReconcileStep>,
    /// The number of further steps.
    pub more_steps: usize,
}

/// How a reconcile of [`RecentReconcile`] ended: with success, an error, a panic or a timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconcileResult {
    /// The reconcile returned an action.
    Success,
    /// The reconcile returned this error, with its causes.
    Failed(String),
    /// The reconcile panicked with this text.
    Panicked(String),
    /// The reconcile was dropped after its deadline and the grace.
    TimedOut,
}
