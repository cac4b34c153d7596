//! Words: the inputs and outputs of the machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::causes::Causes;
use crate::index::Hash;
use crate::options::{AddOptions, Priority};
use crate::ready::KeySlot;

pub(crate) struct Arrival<T> {
    pub(crate) key: T,
    pub(crate) hash: Hash,
    pub(crate) options: AddOptions,
    pub(crate) now: Instant,
}

/// A key that a worker takes.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) slot: KeySlot,
    pub(crate) key: Arc<T>,
    pub(crate) priority: Priority,
    pub(crate) attempts: u32,
    pub(crate) causes: Causes,
}

/// The end of a ticket, which decides whether and when the key runs again; see [`Ticket::end`](crate::Ticket::end).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Success: resets the failures of the key. The key does not run again.
    Forget,
    /// Keeps the number of failures of the key. The key does not run again.
    Settle,
    /// Keeps the number of failures of the key. The key is ready again after a delay.
    SettleAfter(Duration),
    /// Success: resets the failures of the key. The key is ready again after a delay.
    After(Duration),
    /// Failure: the key is ready again after the delay of the rate limiter. If an add caused the run before the retry
    /// of the key was due, the key is ready again when that retry is due, and the failure does not count (WQ-11).
    Backoff,
}

/// The consequences of a ticket's end for the worker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Released {
    /// Whether a parked worker must be woken, because of a ready key or an earlier deadline.
    pub(crate) wake: bool,
    /// The delay until the run that the verdict requested, even if an add absorbed it.
    pub(crate) delay: Option<Duration>,
}
