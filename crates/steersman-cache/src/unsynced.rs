//! Words: a kind that has not synced, and what is known about it.

use std::fmt;

use steersman_informer::Reason;
use steersman_object::Kind;

/// A kind whose informer has not synced, and what is known about it.
///
/// Displays as one line that names the kind, where it is looked for, why it is not there, and the
/// way out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsynced {
    /// The kind.
    pub kind: Kind,
    /// The namespace of the informer; `None` where it looks at all of them, or the kind has none.
    pub namespace: Option<String>,
    /// Why, for those who branch on it.
    pub reason: UnsyncedReason,
    /// Why, for people: the server's message, or that the first list has not ended.
    pub why: String,
    /// What to do about it, where something is known.
    pub way_out: Option<String>,
}

/// Why an informer has not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsyncedReason {
    /// Its first request was not made: the cache does not run, or others have their first sync
    /// before it.
    NotStarted,
    /// Its first list has not ended.
    Syncing,
    /// Its requests fail.
    Failing(Reason),
    /// It has ended: it was removed, or the cache stopped.
    Stopped,
}

impl Unsynced {
    /// Why its requests fail, where they do.
    #[must_use]
    pub fn failing(&self) -> Option<Reason> {
        match self.reason {
            UnsyncedReason::Failing(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether its first request was not made yet.
    #[must_use]
    pub fn is_not_started(&self) -> bool {
        self.reason == UnsyncedReason::NotStarted
    }

    /// Whether its first list is under way, and nothing has failed.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        self.reason == UnsyncedReason::Syncing
    }

    /// Whether the credentials do not allow to read the kind (403).
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.failing() == Some(Reason::Forbidden)
    }

    /// Whether the server does not serve the kind: for example, its definition is not installed.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        self.failing() == Some(Reason::NotServed)
    }

    /// Whether the server's answers do not decode.
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.failing() == Some(Reason::Decode)
    }

    /// Whether the server asks its clients to slow down (429).
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.failing() == Some(Reason::Throttled)
    }

    /// Whether the versions that the server hands out expire before they can be used (410).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.failing() == Some(Reason::Expired)
    }

    /// Whether the server cannot be reached, fails, or does not keep connections.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        let failing = self.failing();
        failing.is_some_and(|reason| {
            matches!(
                reason,
                Reason::Network
                    | Reason::Server
                    | Reason::Starting
                    | Reason::ShortWatch
                    | Reason::Silent
            )
        })
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} could not be cached", self.kind.qualified_plural())?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace:?}")?;
        }
        write!(f, ": {}", self.why)?;
        match &self.way_out {
            Some(way_out) => write!(f, "; {way_out}"),
            None => Ok(()),
        }
    }
}
