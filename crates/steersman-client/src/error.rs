//! Words: why a read or a write failed: the cache, the server, or what was asked.

use std::time::Duration;

use steersman_object::owner::OwnerError;
use steersman_object::{Kind, ObjectKey};
use thiserror::Error as ThisError;

use crate::outcome::is_unknown;

/// Why the client could not do what it was asked.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The cache did not answer.
    #[error(transparent)]
    Cache(#[from] steersman_cache::Error),
    /// The api-server refused, or could not be reached.
    #[error(transparent)]
    Api(#[from] steersman_api::Error),
    /// The object exists, but the cache cannot see it.
    #[error(
        "{kind} {key} exists but the cache cannot see it: this kind is cached by {scoped_by} only"
    )]
    Hidden {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
        /// The selectors under which the kind is cached.
        scoped_by: String,
        /// What the server said.
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// The object kept changing while a difference to it was being sent.
    #[error("{kind} {key} changed under each of {attempts} attempts to change it: try again later")]
    KeptChanging {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
        /// How often it was tried.
        attempts: u32,
        /// What the server said last.
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// The object was deleted, and another one has its name now.
    #[error("{kind} {key} was deleted and made anew meanwhile: it has another uid now")]
    Replaced {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
    },
    /// An object was to be replaced by one that does not say which version it was made from.
    #[error(
        "{kind} {key} cannot be replaced by an object without a resource version: what others wrote would be \
         lost; read it first, or send the change with `Client::ensure` or `Client::patch`"
    )]
    VersionMissing {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
    },
    /// The client works in one namespace, and the object is in another.
    #[error("{kind} {key} is outside namespace {namespace}, the one this client works in")]
    OtherNamespace {
        /// The kind asked for.
        kind: Kind,
        /// The key asked for; of a list, its namespace and a star.
        key: ObjectKey,
        /// The client's namespace.
        namespace: String,
    },
    /// Fields that were to be applied belong to other managers.
    #[error(
        "{kind} {key} cannot be applied by {manager:?} without taking fields over: {}; leave them out, or force it", listed(.conflicts)
    )]
    ApplyConflict {
        /// The kind applied.
        kind: Kind,
        /// The key applied.
        key: ObjectKey,
        /// Who applied it.
        manager: String,
        /// Whose the fields are.
        conflicts: Vec<FieldConflict>,
        /// What the server said.
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// A document cannot be applied as it is.
    #[error("{kind} {key} cannot be applied: {problem}")]
    NotApplicable {
        /// The kind it was to be.
        kind: Kind,
        /// The key, as far as it could be read.
        key: ObjectKey,
        /// What is wrong with it.
        problem: String,
    },
    /// A whole object was to be replaced, of a kind that the cache holds only through a transform.
    #[error(
        "{kind} {key} is cached through the transform {transform:?}, and to replace the object by what that left \
         of it would remove the rest; send the change with `Client::modify`, `patch` or `apply`"
    )]
    Transformed {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
        /// The name of the transform.
        transform: String,
    },
    /// A status was to be written of a kind, or through a type, that has none.
    #[error("the status of {kind} {key} cannot be written: {}", why_not(.source.is_some()))]
    NoStatus {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
        /// What the server said, where it was asked: it serves no such subresource.
        #[source]
        source: Option<Box<steersman_api::Error>>,
    },
    /// Whose field is whose cannot be told, because the object came without its `managedFields`.
    #[error(
        "{kind} {key} has no managedFields, so nobody's fields can be told apart: read it live; a cache cuts them"
    )]
    NoManagedFields {
        /// The kind read.
        kind: Kind,
        /// The key read.
        key: ObjectKey,
    },
    /// A closure that may change an object made another one of it.
    #[error("a change to {kind} {key} may not rename it (to {to}): name and namespace are fixed")]
    Renamed {
        /// The kind changed.
        kind: Kind,
        /// The key before.
        key: ObjectKey,
        /// The key after.
        to: ObjectKey,
    },
    /// The object could not be written as JSON, or what came of it not be read again.
    #[error("{kind} {key} could not be written as JSON")]
    Encode {
        /// The kind written.
        kind: Kind,
        /// The key written.
        key: ObjectKey,
        /// What the serializer said.
        #[source]
        source: serde_json::Error,
    },
    /// A field index was named in a read that goes to the server, which has none.
    #[error("{kind} is read live here, and the field index {index:?} exists in the cache only")]
    IndexNeedsCache {
        /// The kind read.
        kind: Kind,
        /// The index named.
        index: String,
    },
    /// The cache has not seen in time what was written on behalf of the same request. It comes later: to be
    /// tried again.
    #[error(
        "after {waited:?} the cache of {kind} has not seen what this key wrote ({}): try again later", names(.unseen)
    )]
    OwnWritesUnseen {
        /// The kind read.
        kind: Kind,
        /// How long was waited.
        waited: Duration,
        /// What was written and not seen.
        unseen: Vec<ObjectKey>,
    },
    /// An owner could not be set.
    #[error(transparent)]
    Owner(#[from] OwnerError),
}

/// A field that an apply wanted, and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldConflict {
    /// Who owns it.
    pub manager: String,
    /// The subresource through which it was set, if it was one.
    pub subresource: Option<String>,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

impl Error {
    /// Whether the object is absent: from the server, from the cache, or replaced by another of its name.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Cache(error) => error.is_not_found(),
            Self::Api(error) => error.is_not_found(),
            Self::Replaced { .. } => true,
            _ => false,
        }
    }

    /// Whether an object of that name exists already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        match self {
            Self::Api(error) => error.is_already_exists(),
            Self::Hidden { .. } => true,
            _ => false,
        }
    }

    /// Whether the object changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Api(error) => error.is_conflict(),
            Self::KeptChanging { .. } | Self::ApplyConflict { .. } => true,
            _ => false,
        }
    }

    /// Whether an object exists but does not decode: it is not absent.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Cache(error) => error.is_malformed(),
            Self::Api(error) => error.is_decode(),
            _ => false,
        }
    }

    /// Whether the server does not allow it.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.says(steersman_api::Error::is_forbidden)
    }

    /// Whether the server does not know who asks.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.says(steersman_api::Error::is_unauthorized)
    }

    /// Whether the object, or the change to it, is not valid: as it is, it never will be.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.says(steersman_api::Error::is_invalid)
    }

    /// Whether the server asks its clients to slow down, or a disruption budget forbids an eviction at present.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.says(steersman_api::Error::is_throttled)
    }

    /// How long the server asked to wait before another attempt, where it did.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.api()?.retry_after()
    }

    /// Whether the version or the page asked for is no longer available.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.says(steersman_api::Error::is_expired)
    }

    /// Whether it took the server too long (`Timeout`, `ServerTimeout`); what was asked may have been done.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.says(|error| error.is_timeout() || error.is_server_timeout())
    }

    /// Whether something is broken behind the server.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.says(steersman_api::Error::is_internal)
    }

    /// Whether the server does not serve this kind, or the subresource of it.
    #[must_use]
    pub fn is_kind_not_served(&self) -> bool {
        self.says(steersman_api::Error::is_kind_not_served)
    }

    /// Whether the server serves the kind, and not with this verb.
    #[must_use]
    pub fn is_method_not_supported(&self) -> bool {
        self.says(steersman_api::Error::is_method_not_supported)
    }

    /// Whether the namespace is being deleted, so that nothing is created in it any more.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.says(steersman_api::Error::is_namespace_terminating)
    }

    /// Whether the kind cannot be read from the cache because it has not synced; the text says why.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.cache()
            .is_some_and(steersman_cache::Error::is_unavailable)
    }

    /// Whether the namespace asked for is not one that the cache looks at, or not the one that the client works
    /// in.
    #[must_use]
    pub fn is_outside_scope(&self) -> bool {
        match self {
            Self::Cache(error) => error.is_outside_scope(),
            Self::OtherNamespace { .. } => true,
            _ => false,
        }
    }

    fn says(&self, is: impl Fn(&steersman_api::Error) -> bool) -> bool {
        self.api().is_some_and(is)
    }

    /// What the cache said; `None` where it was not asked.
    #[must_use]
    pub fn cache(&self) -> Option<&steersman_cache::Error> {
        match self {
            Self::Cache(error) => Some(error),
            _ => None,
        }
    }

    /// What the server, or the way to it, said; `None` where it was not asked.
    #[must_use]
    pub fn api(&self) -> Option<&steersman_api::Error> {
        match self {
            Self::Api(error) => Some(error),
            Self::Hidden { source, .. }
            | Self::KeptChanging { source, .. }
            | Self::ApplyConflict { source, .. } => Some(&**source),
            Self::NoStatus { source, .. } => source.as_deref(),
            _ => None,
        }
    }

    /// The selectors of the cache that may hide the object, where there are any.
    #[must_use]
    pub fn scoped_by(&self) -> Option<&str> {
        match self {
            Self::Cache(error) => error.scoped_by(),
            Self::Hidden { scoped_by, .. } => Some(scoped_by),
            _ => None,
        }
    }

    /// Whose the fields are that an apply was refused for; empty for any other error.
    #[must_use]
    pub fn conflicts(&self) -> &[FieldConflict] {
        match self {
            Self::ApplyConflict { conflicts, .. } => conflicts,
            _ => &[],
        }
    }

    /// Whether a write that failed so may have been done all the same: the connection broke, the answer could
    /// not be read, or the server does not know either.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.api().is_some_and(is_unknown)
    }
}

/// Why a status cannot be written, and what to do about it.
fn why_not(was_asked: bool) -> &'static str {
    if was_asked {
        "the server serves no status of this kind; enable `subresources.status` in its definition, or write the \
         object itself where the kind has no status"
    } else {
        "its Rust type has no field `status`; write the object itself with `modify`, or use a type that holds the \
         status"
    }
}

/// What a read found, where an absent object is no error.
pub(crate) fn absent_is_none<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first few keys.
fn names(keys: &[ObjectKey]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = keys.iter().take(SHOWN).map(ToString::to_string).collect();
    let mut text = shown.join(", ");
    if let Some(more) = keys.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

/// `"helm" owns .spec.replicas, …`, the first few.
fn listed(conflicts: &[FieldConflict]) -> String {
    const SHOWN: usize = 5;
    let shown = conflicts.iter().take(SHOWN).map(|conflict| {
        let FieldConflict { manager, field, .. } = conflict;
        format!("{manager:?} owns {field}")
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = conflicts.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        text.push_str(&format!(", and {more} more"));
    }
    text
}
