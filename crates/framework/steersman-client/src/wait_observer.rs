//! Words: the time that a client waits for a server or for its cache, and the observer of these waits.

use std::fmt;
use std::time::{Duration, Instant};

use steersman_object::{Kind, ObjectKey};

use crate::write::RequestId;

/// A wait of a client. Writes are no waits: [`WriteObserver`](crate::WriteObserver) observes them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientWait {
    /// The number of the wait, unique within the process. Its begin and its end have the same number.
    pub id: u64,
    /// The reconcile request that the client works for; `None` if the client was not made for a request.
    pub request: Option<RequestId>,
    /// What the client waited for.
    pub cause: WaitCause,
    /// The kind of the objects that are read or written.
    pub kind: Kind,
    /// The object that is read; `None` for a list, and before a write is sent again.
    pub key: Option<ObjectKey>,
    /// When the wait began.
    pub began: Instant,
}

/// What a client waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum WaitCause {
    /// The response to a read that was sent to the server, with the pauses before it was sent again.
    #[display("a read from the server")]
    LiveRead,
    /// The cache, until it had seen the writes that the read must see.
    #[display("the cache, to see own writes")]
    OwnWrites,
    /// The time that the server named (`Retry-After`) before a write was sent again.
    #[display("a retry that the server asked for")]
    RetryAfter,
}

/// An observer of the waits of a client. Added with
/// [`ClientOptions::observe_waits`](crate::ClientOptions::observe_waits).
///
/// A read from the cache that waits for nothing is not reported.
///
/// # For implementors
///
/// The methods run in the caller's task. They must be quick and must not block or panic.
pub trait WaitObserver: Send + Sync + 'static {
    /// Called when a wait begins.
    fn began(&self, wait: &ClientWait);

    /// Called when a wait has ended, after this time; also if its future is dropped before its end.
    fn ended(&self, wait: &ClientWait, took: Duration);
}

impl fmt::Debug for dyn WaitObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitObserver")
    }
}
