//! Driver: the obligation to finish one key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::exchange::{Taken, Verdict};
use crate::key::Key;
use crate::options::Priority;
use crate::ready::Slot;
use crate::shared::Shared;

/// One key in the hands of one worker.
///
/// While a ticket lives no other ticket holds its key (WQ-1). Finish it with [`forget`](Self::forget),
/// [`after`](Self::after), [`backoff`](Self::backoff) or [`settle`](Self::settle). Dropping it, be it
/// by a panic or with a task that is aborted, counts as [`backoff`](Self::backoff), so neither can
/// wedge or lose a key (WQ-3).
#[must_use = "dropping a ticket requeues its key with backoff"]
pub struct Ticket<T: Key> {
    shared: Arc<Shared<T>>,
    key: Arc<T>,
    slot: Slot,
    priority: Priority,
    attempts: u32,
    ended: bool,
}

impl<T: Key> Ticket<T> {
    pub(crate) fn new(shared: Arc<Shared<T>>, taken: Taken<T>) -> Self {
        Self {
            shared,
            key: taken.key,
            slot: taken.slot,
            priority: taken.priority,
            attempts: taken.attempts,
            ended: false,
        }
    }

    /// The key to work on.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// How many failures of the key are counted since it was last forgotten: 0 on a first run.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The priority it was taken with. Delayed runs and retries keep it.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Success: forgets the failures of the key. It comes back when it is added again.
    pub fn forget(self) {
        self.end(Verdict::Forget);
    }

    /// Success with an appointment: forgets the failures, and the key comes back after `delay`.
    pub fn after(self, delay: Duration) {
        self.end(Verdict::After(delay));
    }

    /// Failure: the key comes back when the rate limiter says so. Answers the delay; an add that came
    /// meanwhile, or comes later, may bring the key back earlier.
    pub fn backoff(self) -> Duration {
        self.end(Verdict::Backoff).unwrap_or_default()
    }

    /// The end without a retry that is no success: nothing follows, and the count of failures stays
    /// for the next failure of the key.
    pub fn settle(self) {
        self.end(Verdict::Settle);
    }

    fn end(mut self, verdict: Verdict) -> Option<Duration> {
        self.ended = true;
        self.shared.release(self.slot, verdict)
    }
}

impl<T: Key> Drop for Ticket<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.release(self.slot, Verdict::Backoff);
        }
    }
}

impl<T: Key> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.key)
            .field("attempts", &self.attempts)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
