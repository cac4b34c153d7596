//! Words: what the reflector is to do next, and what comes of it.

use std::time::{Duration, Instant};

use steersman_object::ResourceVersion;

use crate::state::Reason;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask for one page.
    List {
        version: ResourceVersion,
        limit: Option<u32>,
        /// The token of the page before; without one, forget what was gathered.
        page: Option<String>,
    },
    /// Open a watch after a version.
    Watch {
        after: ResourceVersion,
        timeout: Duration,
    },
    /// Open a watch that begins with everything.
    Stream {
        version: ResourceVersion,
        timeout: Duration,
    },
    /// Wait.
    Sleep {
        until: Instant,
        /// The server may be away: its return ends the wait.
        away: bool,
    },
}

/// What a bookmark comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BookmarkEffect {
    /// The position, at most.
    Position,
    /// A streaming list is complete.
    Complete,
    /// The server does not stream lists: the watch is to be given up.
    NoStream,
}

/// How an open watch came to its end, other than by an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The stream ended.
    Closed,
    /// The connection broke.
    Broken,
    /// Nothing was heard for too long.
    Silent,
}

/// Why requests fail at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) since: Instant,
}
