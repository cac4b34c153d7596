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

/// An informer that does not follow its server at the moment, and what is known about it; see
/// [`Cache::trouble`](crate::Cache::trouble).
///
/// Displays as one line that names the kind, the place, the reason and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// The kind.
    pub kind: Kind,
    /// The namespace of the informer; `None` where it looks at all of them, or the kind has none.
    pub namespace: Option<String>,
    /// Whether it has had its first sync: its objects are there then, and grow old. Otherwise reads of
    /// the kind fail.
    pub has_synced: bool,
    /// Why, for programs.
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

impl UnsyncedReason {
    /// One word in lower case, as in labels of metrics: that of the [`Reason`] where requests fail.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::Syncing => "syncing",
            Self::Failing(reason) => reason.as_str(),
            Self::Stopped => "stopped",
        }
    }
}

impl Trouble {
    pub(crate) fn new(unsynced: Unsynced, has_synced: bool) -> Self {
        Self {
            kind: unsynced.kind,
            namespace: unsynced.namespace,
            has_synced,
            reason: unsynced.reason,
            why: unsynced.why,
            way_out: unsynced.way_out,
        }
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = "could not be cached";
        let (place, way_out) = (self.namespace.as_deref(), self.way_out.as_deref());
        show(f, &self.kind, problem, place, &self.why)?;
        show_way_out(f, way_out)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.has_synced {
            true => "grows old in the cache",
            false => "could not be cached",
        };
        let (place, way_out) = (self.namespace.as_deref(), self.way_out.as_deref());
        show(f, &self.kind, problem, place, &self.why)?;
        show_way_out(f, way_out)
    }
}

fn show(
    f: &mut fmt::Formatter<'_>,
    kind: &Kind,
    problem: &str,
    namespace: Option<&str>,
    why: &str,
) -> fmt::Result {
    write!(f, "{} {problem}", kind.qualified_plural())?;
    if let Some(namespace) = namespace {
        write!(f, " in namespace {namespace:?}")?;
    }
    write!(f, ": {why}")
}

fn show_way_out(f: &mut fmt::Formatter<'_>, way_out: Option<&str>) -> fmt::Result {
    match way_out {
        Some(way_out) => write!(f, "; {way_out}"),
        None => Ok(()),
    }
}
