//! Words: the phases and steps of a reflector, and the effects of bookmarks and failures.

use std::time::{Duration, Instant};

use steersman_object::ResourceVersion;

use crate::state::Reason;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReflectorPhase {
    /// The next request begins a list.
    Empty,
    /// A list is under way, page by page.
    Listing {
        /// The continue token of the next page; `None` for the first page.
        page: Option<String>,
    },
    /// A streaming list (WatchList) is under way.
    Streaming,
    /// The list is complete; a watch continues from its version.
    Watching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Each list is streamed.
    Yes,
    /// Streaming lists broke off: the next list is an ordinary list.
    NotNow,
    /// No list is streamed: the options disable streaming, or the server does not offer it.
    No,
}

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
