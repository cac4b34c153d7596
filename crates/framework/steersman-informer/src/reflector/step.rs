//! Words: the next step of a reflector, and the effects of bookmarks and failures.

use std::time::{Duration, Instant};

use steersman_object::ResourceVersion;

use crate::state::Reason;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReflectorStep {
    List {
        version: ResourceVersion,
        limit: Option<u32>,
        /// The continue token; `None` requests the first page.
        page: Option<String>,
    },
    Watch {
        after: ResourceVersion,
        timeout: Duration,
    },
    /// Open a watch that delivers all objects first: a streaming list.
    Stream {
        version: ResourceVersion,
        timeout: Duration,
    },
    Sleep {
        until: Instant,
        /// Whether the server may be away, so that its return ends the wait.
        away: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BookmarkEffect {
    /// The bookmark does no more than advance the version of the watch.
    Position,
    /// A streaming list is complete.
    Complete,
    /// The server does not stream lists: close the watch.
    NoStream,
}

/// How an open watch ended, other than by an error event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The server ended the stream.
    Closed,
    Broken,
    Silent,
}

/// Why requests fail at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestProblem {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) since: Instant,
}
