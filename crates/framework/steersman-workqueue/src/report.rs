//! Words: what a queue holds at one moment, for people.

use std::time::Instant;

use crate::options::Priority;

/// The keys of a queue at one moment, as [`Queue::report`](crate::Queue::report) returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueReport<T> {
    /// The number of ready keys.
    pub ready: usize,
    /// The number of keys that wait for a deadline. A held key with a deadline counts only as held.
    pub delayed: usize,
    /// The number of keys that tickets hold.
    pub held: usize,
    /// The first keys of each state: the held keys, the longest hold first; the ready keys, the oldest first; the delayed
    /// keys, the next deadline first.
    pub keys: Vec<KeyReport<T>>,
    /// The number of keys that wait for a retry.
    pub retrying: usize,
    /// The keys with the most failures since their last success, the most first. A key that is about to be retried at once
    /// is not among these.
    pub failing: Vec<KeyReport<T>>,
}

/// A key of a queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyReport<T> {
    /// The key.
    pub key: T,
    /// Whether the key is held, ready or delayed.
    pub state: KeyState,
    /// The priority of its run.
    pub priority: Priority,
    /// The number of failures since the last success.
    pub failures: u32,
    /// The deadline of the retry of a failed key, also if an add has brought its next run forward (WQ-11).
    pub retry_at: Option<Instant>,
}

/// The state of a key in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// A ticket holds the key.
    Held {
        /// When the ticket was taken; `None` unless the queue [records times](crate::QueueOptions::record_times).
        since: Option<Instant>,
        /// Whether an add requests another run after this one (WQ-2).
        runs_again: bool,
    },
    /// The key waits for a worker.
    Ready {
        /// Since when; `None` unless the queue has [metrics](crate::QueueOptions::metrics).
        since: Option<Instant>,
    },
    /// The key waits for a deadline.
    Delayed {
        /// The deadline.
        until: Instant,
    },
}

impl<T> QueueReport<T> {
    /// Replaces each key by what `of` makes of it.
    pub fn map<U>(self, of: impl Fn(T) -> U) -> QueueReport<U> {
        QueueReport {
            ready: self.ready,
            delayed: self.delayed,
            held: self.held,
            retrying: self.retrying,
            keys: self.keys.into_iter().map(|one| one.map(&of)).collect(),
            failing: self.failing.into_iter().map(|one| one.map(&of)).collect(),
        }
    }
}

impl<T> KeyReport<T> {
    /// Replaces the key by what `of` makes of it.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> KeyReport<U> {
        KeyReport {
            key: of(self.key),
            state: self.state,
            priority: self.priority,
            failures: self.failures,
            retry_at: self.retry_at,
        }
    }
}
