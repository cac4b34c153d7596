//! Words: what the machine takes and what it returns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::index::Hash;
use crate::options::{AddOptions, Priority};
use crate::ready::Slot;

/// One add of a key.
pub(crate) struct Arrival<T> {
    pub(crate) key: T,
    pub(crate) hash: Hash,
    pub(crate) options: AddOptions,
    pub(crate) now: Instant,
}

/// A key on its way to a worker.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) slot: Slot,
    pub(crate) key: Arc<T>,
    pub(crate) priority: Priority,
    pub(crate) attempts: u32,
}

/// How a worker ends its work on a key; see [`Ticket::end`](crate::Ticket::end).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Success: failures are forgotten, nothing follows.
    Forget,
    /// Nothing follows, and the number of failures stays.
    Settle,
    /// Success: failures are forgotten, and the key is ready again after a delay.
    After(Duration),
    /// Failure: the key is ready again after the delay of the rate limiter.
    Backoff,
}

/// What follows from the end of a ticket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Released {
    /// Whether a parked worker has a new key or an earlier deadline to look at.
    pub(crate) wake: bool,
    /// The delay that the verdict asked for, even if an add absorbed it.
    pub(crate) delay: Option<Duration>,
}
