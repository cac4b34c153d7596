//! Words: reports on informers: all of them, those that have not synced, and those that fail.

use std::fmt;
use std::time::Instant;

use steersman_informer::{InformerState, InformerUsage, Reason};
use steersman_object::Kind;

/// An informer that has not synced, with the reason and the remedy.
///
/// Displays as one line with the kind, the namespace, the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsynced {
    /// The kind that the informer caches.
    pub kind: Kind,
    /// The namespace of the informer; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The reason, as a value that programs can match.
    pub reason: UnsyncedReason,
    /// The reason, as text for people: the server's message, or the state of the first list.
    pub why: String,
    /// The remedy, if one is known.
    pub remedy: Option<String>,
}

/// An informer that does not follow its server at the moment; see
/// [`Cache::informer_failures`](crate::Cache::informer_failures).
///
/// Displays as one line with the kind, the namespace, the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerFailure {
    /// The kind that the informer caches.
    pub kind: Kind,
    /// The namespace of the informer; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Whether the informer had its first sync. If so, reads return objects that become stale;
    /// otherwise reads of the kind fail.
    pub has_synced: bool,
    /// The reason, as a value that programs can match.
    pub reason: UnsyncedReason,
    /// The reason, as text for people: the server's message, or the state of the first list.
    pub why: String,
    /// The remedy, if one is known.
    pub remedy: Option<String>,
}

/// An informer and its present state; see [`Cache::informer_reports`](crate::Cache::informer_reports).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerReport {
    /// The kind that the informer caches.
    pub kind: Kind,
    /// The namespace of the informer; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The present state, such as syncing, synced or degraded.
    pub state: InformerState,
    /// Whether the informer had its first sync, so that reads return its objects.
    pub has_synced: bool,
    /// Whether options, a controller, an index or a caller declared the informer; otherwise a read started it.
    pub is_declared: bool,
    /// Whether the informer requests only the metadata of its objects.
    pub is_metadata_only: bool,
    /// The number of live subscriptions to the informer, such as those of controllers.
    pub subscribers: usize,
    /// The instant by which the reflector will have received data, sent a request, or ended a pause; `None` unless the
    /// informer runs.
    pub activity_due: Option<Instant>,
    /// What the informer holds and has received; `None` in a cache without metrics.
    pub usage: Option<InformerUsage>,
}

/// The reason why an informer has not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsyncedReason {
    /// The informer has sent no request: the cache does not run, or too many other informers are in their first sync.
    NotStarted,
    /// The first list has not ended.
    Syncing,
    /// The informer's requests fail.
    Failing(Reason),
    /// The informer has ended: it was removed, or the cache stopped.
    Stopped,
}

impl Unsynced {
    /// Returns the reason why requests fail; `None` if they do not fail.
    pub fn failing(&self) -> Option<Reason> {
        match self.reason {
            UnsyncedReason::Failing(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the informer has sent no request yet.
    pub fn is_not_started(&self) -> bool {
        self.reason == UnsyncedReason::NotStarted
    }

    /// Returns whether the first list is in progress without a failure.
    pub fn is_syncing(&self) -> bool {
        self.reason == UnsyncedReason::Syncing
    }

    /// Returns whether the credentials do not permit reading the kind (403).
    pub fn is_forbidden(&self) -> bool {
        self.failing() == Some(Reason::Forbidden)
    }

    /// Returns whether the server does not serve the kind, for example because its definition is not installed.
    pub fn is_not_served(&self) -> bool {
        self.failing() == Some(Reason::NotServed)
    }

    /// Returns whether the server's responses do not decode.
    pub fn is_undecodable(&self) -> bool {
        self.failing() == Some(Reason::Decode)
    }

    /// Returns whether the server throttles its clients (429).
    pub fn is_throttled(&self) -> bool {
        self.failing() == Some(Reason::Throttled)
    }

    /// Returns whether resource versions expire before they can be used (410).
    pub fn is_expired(&self) -> bool {
        self.failing() == Some(Reason::Expired)
    }

    /// Returns whether the server is unreachable, fails, or closes connections early.
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
    /// Returns the reason as a lower-case label value for metrics; for failing requests the value of their [`Reason`].
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

impl InformerFailure {
    pub(crate) fn new(unsynced: Unsynced, has_synced: bool) -> Self {
        Self {
            kind: unsynced.kind,
            namespace: unsynced.namespace,
            has_synced,
            reason: unsynced.reason,
            why: unsynced.why,
            remedy: unsynced.remedy,
        }
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, remedy) = (self.namespace.as_deref(), self.remedy.as_deref());
        show(
            f, &self.kind, "could not be cached", place, &self.why, remedy,
        )
    }
}

impl fmt::Display for InformerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.has_synced {
            true => "is stale in the cache",
            false => "could not be cached",
        };
        let (place, remedy) = (self.namespace.as_deref(), self.remedy.as_deref());
        show(f, &self.kind, problem, place, &self.why, remedy)
    }
}

fn show(
    f: &mut fmt::Formatter<'_>,
    kind: &Kind,
    problem: &str,
    namespace: Option<&str>,
    why: &str,
    remedy: Option<&str>,
) -> fmt::Result {
    write!(f, "{} {problem}", kind.qualified_plural())?;
    if let Some(namespace) = namespace {
        write!(f, " in namespace {namespace:?}")?;
    }
    write!(f, ": {why}")?;
    match remedy {
        Some(remedy) => write!(f, "; {remedy}"),
        None => Ok(()),
    }
}
