//! Driver: a ticket: the right and duty to process one key.

use std::sync::Arc;
use std::time::Duration;

use crate::causes::Causes;
use crate::exchange::{Taken, Verdict};
use crate::key::Key;
use crate::options::Priority;
use crate::shared::SharedQueue;

/// The right and duty of a worker to process one key.
///
/// While a ticket lives no other ticket holds its key (WQ-1). Finish it with [`forget`](Self::forget),
/// [`after`](Self::after), [`backoff`](Self::backoff) or [`settle`](Self::settle). Dropping a ticket, by a panic or
/// with an aborted task, counts as [`backoff`](Self::backoff), so no key is blocked or lost (WQ-3).
#[derive(derive_more::Debug)]
#[debug(
    "Ticket {{ key: {:?}, attempts: {:?}, priority: {:?}, .. }}",
    taken.key, taken.attempts, taken.priority
)]
#[must_use = "dropping a ticket requeues its key with backoff"]
pub struct Ticket<T: Key> {
    shared: Arc<SharedQueue<T>>,
    taken: Taken<T>,
    next_priority: Option<Priority>,
    ended: bool,
}

impl<T: Key> Ticket<T> {
    pub(crate) fn new(shared: Arc<SharedQueue<T>>, taken: Taken<T>) -> Self {
        Self {
            shared,
            taken,
            next_priority: None,
            ended: false,
        }
    }

    /// Returns the key.
    pub fn key(&self) -> &T {
        &self.taken.key
    }

    /// Returns the number of failures of the key since it was last forgotten: 0 on a first run. If an add causes a run
    /// before the retry is due, the failure of that run does not count (WQ-11).
    pub fn attempts(&self) -> u32 {
        self.taken.attempts
    }

    /// Returns the priority that the key had in the queue. Delayed runs and retries keep it, unless
    /// [`set_next_priority`](Self::set_next_priority) changes it.
    pub fn priority(&self) -> Priority {
        self.taken.priority
    }

    /// Returns the causes of this run.
    pub fn causes(&self) -> Causes {
        self.taken.causes
    }

    /// Sets the priority of the run that the end of this ticket requests; adds have their own priority.
    pub fn set_next_priority(&mut self, priority: Priority) {
        self.next_priority = Some(priority);
    }

    /// Ends with success: forgets the failures of the key. The key runs again when it is added again.
    pub fn forget(self) {
        let _ = self.end(Verdict::Forget);
    }

    /// Ends with success: forgets the failures of the key, which runs again after `delay`.
    pub fn after(self, delay: Duration) {
        let _ = self.end(Verdict::After(delay));
    }

    /// Ends with a failure: the key runs again after the returned delay, which the rate limiter chose. If an add caused
    /// this run before a pending retry was due, the key runs again when that retry is due (WQ-11). An add may run the
    /// key earlier.
    pub fn backoff(self) -> Duration {
        self.end(Verdict::Backoff).unwrap_or_default()
    }

    /// Ends without success and without a retry: the number of failures of the key stays unchanged.
    pub fn settle(self) {
        let _ = self.end(Verdict::Settle);
    }

    /// Ends with a verdict as a value. Returns the delay until the next run, if the verdict requests one.
    pub fn end(mut self, verdict: Verdict) -> Option<Duration> {
        self.ended = true;
        let slot = self.taken.slot;
        self.shared.release(slot, verdict, self.next_priority)
    }
}

impl<T: Key> Drop for Ticket<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.release(self.taken.slot, Verdict::Backoff, None);
        }
    }
}
