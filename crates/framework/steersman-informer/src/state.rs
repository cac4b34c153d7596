//! Words: the state of an informer, and the reasons why an informer is degraded.

use std::time::Instant;

/// The state of an informer.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{}", self.as_str())]
#[non_exhaustive]
pub enum InformerState {
    /// Declared, and not running yet.
    Declared,
    /// Running; the first list is not complete yet.
    Syncing,
    /// The store follows the server.
    Synced,
    /// Requests fail, and the informer repeats them. The store stays readable, but grows stale.
    /// `has_synced` returns whether the store was ever complete.
    #[display("degraded ({reason}): {message}")]
    Degraded {
        /// The class of the failure.
        reason: Reason,
        /// The server's message, or a description without the kind, such as `watch failed: the server answered 500`.
        message: String,
        /// The time since which requests fail for this reason.
        since: Instant,
    },
    /// Stopped. The store keeps its objects.
    Stopped,
}

/// Why an informer listed its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum ListCause {
    /// The first list.
    #[display("the start")]
    Start,
    /// A view needs more of each object, or a caller asked for a list.
    #[display("a request of the program")]
    Requested,
    /// The replica gained slots of the shards.
    #[display("slots that this replica gained")]
    Slots,
    /// The server did not accept the continue token of a list.
    #[display("a refused continue token")]
    RefusedToken,
    /// The resource version of the watch, or the continue token of a list, had expired (410).
    #[display("an expired version")]
    Expired,
    /// The server did not serve the kind.
    #[display("the kind was not served")]
    NotServed,
    /// The server refused the watch several times.
    #[display("a refused watch")]
    Refused,
    /// The server ended each watch at once.
    #[display("watches that ended at once")]
    ShortWatches,
    /// Events did not decode.
    #[display("events that do not decode")]
    Undecodable,
}

/// The reason why an informer is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.as_str())]
#[non_exhaustive]
pub enum Reason {
    /// The server authenticated the client and does not permit the request (403).
    Forbidden,
    /// The server does not accept the credentials (401).
    Unauthorized,
    /// The server does not serve the kind.
    NotServed,
    /// The server refuses the request itself, for example because of its field selector.
    Rejected,
    /// The server asks its clients to slow down.
    Throttled,
    /// The server cannot be reached.
    Network,
    /// The server answers 5xx.
    Server,
    /// The server is starting and does not serve the kind yet: its paths are not installed, or its
    /// storage is (re)initializing. The informer repeats the request every second or two.
    Starting,
    /// The server ends watches as soon as they are open.
    ShortWatch,
    /// A watch was silent for longer than a watch over a working connection can be.
    Silent,
    /// The server's answers do not decode.
    Decode,
    /// The server's resource versions expire before the informer can use them.
    Expired,
}

impl InformerState {
    /// Returns the state as one lower-case word, as in labels of metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Syncing => "syncing",
            Self::Synced => "synced",
            Self::Degraded { .. } => "degraded",
            Self::Stopped => "stopped",
        }
    }

    /// Returns whether the state is [`Degraded`](Self::Degraded): requests fail.
    pub fn is_degraded(&self) -> bool {
        matches!(self, Self::Degraded { .. })
    }

    /// Returns whether the store follows the server.
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced)
    }
}

impl Reason {
    /// Returns the reason as one lower-case word, as in labels of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::NotServed => "not_served",
            Self::Rejected => "rejected",
            Self::Throttled => "throttled",
            Self::Network => "network",
            Self::Server => "server",
            Self::Starting => "starting",
            Self::ShortWatch => "short_watch",
            Self::Silent => "silent",
            Self::Decode => "decode",
            Self::Expired => "expired",
        }
    }
}
