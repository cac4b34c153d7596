//! Words: how an informer is doing.

use std::fmt;
use std::time::Instant;

/// What an informer is doing, and how it gets on with its server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Declared, and not running yet.
    Declared,
    /// Running, and it has not seen the initial set.
    Syncing,
    /// The store follows the server.
    Synced,
    /// Requests fail; it goes on trying by itself. What the store holds stays readable and grows
    /// old; whether it ever was complete is what `has_synced` of the informer says.
    Degraded {
        /// What kind of failure it is.
        reason: Reason,
        /// What the server said or what happened, for people; it does not name the kind again:
        /// `watch failed: the server answered 500`.
        message: String,
        /// Since when this is the reason.
        since: Instant,
    },
    /// Not running any more. The store keeps what it had.
    Stopped,
}

/// Why an informer is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The server knows who asks and does not allow it (403).
    Forbidden,
    /// The server does not accept the credentials (401).
    Unauthorized,
    /// The server does not serve the kind.
    NotServed,
    /// The request itself is refused, for example for its field selector.
    Rejected,
    /// The server asks its clients to slow down.
    Throttled,
    /// The server cannot be reached.
    Network,
    /// The server fails (5xx).
    Server,
    /// The server is starting and does not serve the kind yet: its paths are not installed, or its storage is
    /// (re)initializing. It is asked again each second or two.
    Starting,
    /// The server ends watches as soon as they are open.
    ShortWatch,
    /// A connection was open and nothing was heard, for longer than a living one is silent.
    Silent,
    /// The server's answers do not decode.
    Decode,
    /// The versions that the server hands out expire before they can be used.
    Expired,
}

impl State {
    /// One word in lower case, as in labels of metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Syncing => "syncing",
            Self::Synced => "synced",
            Self::Degraded { .. } => "degraded",
            Self::Stopped => "stopped",
        }
    }

    /// Whether requests fail.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        matches!(self, Self::Degraded { .. })
    }

    /// Whether the store follows the server.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced)
    }
}

impl Reason {
    /// One word in lower case, as in labels of metrics.
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Degraded {
                reason, message, ..
            } => write!(f, "degraded ({reason}): {message}"),
            other => f.write_str(other.as_str()),
        }
    }
}
