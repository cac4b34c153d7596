//! Words: a reconcile that has ended, as its controller keeps it.

use std::time::{Duration, Instant};

use crate::context::event_journal::{KeptSteps, shortened};
use crate::context::reason::RunReason;
use crate::journal::recent::{RecentReconcile, ReconcileResult};
use crate::request::RequestKey;

/// A reconcile that has ended. Its request and reason are formatted only when a reader asks for them.
#[derive(Clone)]
pub(crate) struct Kept<R> {
    pub(crate) id: u64,
    pub(crate) request: R,
    pub(crate) reason: RunReason,
    pub(crate) attempt: u32,
    pub(crate) result: ReconcileResult,
    pub(crate) time: Duration,
    pub(crate) ended: Instant,
    pub(crate) next_in: Option<Duration>,
    pub(crate) steps: KeptSteps,
}

impl<R: RequestKey> Kept<R> {
    /// Shortens the text of a failure, so that its memory is bounded.
    pub(crate) fn shorten(&mut self) {
        if let ReconcileResult::Failed(text) | ReconcileResult::Panicked(text) = &mut self.result {
            *text = shortened(std::mem::take(text));
        }
    }

    /// Formats the request and the reason, which may run code of the program.
    pub(crate) fn shown(self) -> RecentReconcile {
        RecentReconcile {
            id: self.id,
            request: format!("{:?}", self.request),
            reason: self.reason.to_string(),
            attempt: self.attempt,
            result: self.result,
            time: self.time,
            ended: self.ended,
            next_in: self.next_in,
            steps: self.steps.first,
            more_steps: self.steps.more,
        }
    }
}
