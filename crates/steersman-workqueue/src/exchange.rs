//! Words: what goes into the machine and what comes out of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::index::Hash;
use crate::options::{AddOptions, Priority};
use crate::ready::Slot;

/// A key that is added.
pub(crate) struct Arrival<T> {
    pub(crate) key: T,
    pub(crate) hash: Hash,
    pub(crate) options: AddOptions,
    pub(crate) now: Instant,
}

/// A key handed to a worker.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) slot: Slot,
    pub(crate) key: Arc<T>,
    pub(crate) priority: Priority,
    pub(crate) attempts: u32,
}

/// How a worker ended with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Success: failures are forgotten, nothing follows.
    Forget,
    /// Nothing follows, and the count of failures stays.
    Settle,
    /// Success: failures are forgotten, and the key comes back.
    After(Duration),
    /// Failure: the key comes back when the limiter says so.
    Backoff,
}

/// What came of the end of a hold.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Released {
    /// Whether a waiting worker has something new to look at.
    pub(crate) wake: bool,
    /// The delay that the verdict asked for, whether or not an add absorbed it.
    pub(crate) delay: Option<Duration>,
}
