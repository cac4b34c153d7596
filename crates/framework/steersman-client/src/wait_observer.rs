//! Words: the time that a client waits for a server or for its cache, and the observer of these waits.

use std::fmt;
use std::time::{Duration, Instant};

use steersman_object::Kind;

use crate::write::RequestId;

/// A wait of a client that has ended. Writes are no waits: [`WriteObserver`](crate::WriteObserver) observes them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientWait {
    /// The reconcile request that the client works for; `None` if the client was not made for a request.
    pub request: Option<RequestId>,
    /// What the client waited for.
    pub cause: WaitCause,
    /// The kind of the objects that are read or written.
    pub kind: Kind,
    /// When the wait began.
    pub began: Instant,
    /// How long the wait took.
    pub took: Duration,
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
/// `waited` runs in the caller's task, also if the future of the wait is dropped before its end. It must be quick and must
/// not block or panic.
pub trait WaitObserver: Send + Sync + 'static {
    /// Called when a wait has ended.
    fn waited(&self, wait: &ClientWait);
}

impl fmt::Debug for dyn WaitObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitObserver")
    }
}
