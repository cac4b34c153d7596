//! Words: the errors of the client: from the cache, from the server, and of the request itself.

use std::time::Duration;

use steersman_object::owner::OwnerError;
use steersman_object::{Kind, ObjectKey};
use thiserror::Error as ThisError;

use crate::condition::LastSeen;
use crate::write::outcome::is_unknown;

/// The error of a read, a write or a wait of a [`Client`](crate::Client). Its methods, such as
/// [`is_conflict`](Self::is_conflict), give the same answer whether the cache, the server or the client made the error.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The cached read failed, for example because the object is absent or its kind has not synced.
    #[error(transparent)]
    Cache(#[from] steersman_cache::Error),
    /// The API server refused the request, or could not be reached.
    #[error(transparent)]
    Api(#[from] steersman_api::Error),
    /// An object was not created: an object of its name exists, and a selector hides that object from the cache.
    #[error(
        "{kind} {key} exists but the cache cannot see it: this kind is cached by {scoped_by} only"
    )]
    Hidden {
        /// The kind of the hidden object.
        kind: Kind,
        /// The key of the hidden object.
        key: ObjectKey,
        /// The selectors under which the kind is cached, as text.
        scoped_by: String,
        /// The server's refusal to create an object of this name.
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// The object changed before each attempt to send a difference.
    #[error("{kind} {key} changed under each of {attempts} attempts to change it: try again later")]
    KeptChanging {
        /// The kind of the object that kept changing.
        kind: Kind,
        /// The key of the object that kept changing.
        key: ObjectKey,
        /// The number of attempts; see [`ClientOptions::attempts`](crate::ClientOptions::attempts).
        attempts: u32,
        /// The server's refusal of the last attempt.
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// The object was deleted, and another object has its name now.
    #[error("{kind} {key} was deleted and created again: it has another uid now")]
    Replaced {
        /// The kind of the deleted object.
        kind: Kind,
        /// The key of the deleted object. Another object has this key now.
        key: ObjectKey,
    },
    /// An apply was limited to the object that the caller found, and the server has another state: the object was
    /// created, replaced or deleted meanwhile.
    #[error(
        "{kind} {key} is not as it was found: it was created, replaced or deleted a moment ago; read it live and try again"
    )]
    NotAsFound {
        /// The kind of the object that was to be applied.
        kind: Kind,
        /// The key of the object that was to be applied.
        key: ObjectKey,
        /// The server's refusal of the uid or version that the apply required.
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// An update was not sent: its object has no resource version, so it could overwrite changes of other clients.
    #[error(
        "{kind} {key} cannot be replaced by an object without a resource version: what others wrote would be \
         lost; read it first, or send the change with `Client::ensure` or `Client::patch`"
    )]
    VersionMissing {
        /// The kind of the object that was to be replaced.
        kind: Kind,
        /// The key of the object that was to be replaced.
        key: ObjectKey,
    },
    /// The client is limited to one namespace, and the object is in another namespace.
    #[error("{kind} {key} is outside namespace {namespace}, the one this client works in")]
    OtherNamespace {
        /// The kind of the object that was to be read or written.
        kind: Kind,
        /// The key of the object; for a list, its namespace and `*`.
        key: ObjectKey,
        /// The namespace that the client is limited to.
        namespace: String,
    },
    /// An apply without `force` was refused, because other managers own some of its fields.
    #[error(
        "{kind} {key} cannot be applied by {manager:?} without taking fields over: {}; leave them out, or force it", listed(.conflicts)
    )]
    ApplyConflict {
        /// The kind of the object that was to be applied.
        kind: Kind,
        /// The key of the object that was to be applied.
        key: ObjectKey,
        /// The field manager that sent the apply.
        manager: String,
        /// The refused fields, each with the manager that owns it.
        conflicts: Vec<FieldConflict>,
        /// The server's refusal of the apply (409).
        #[source]
        source: Box<steersman_api::Error>,
    },
    /// The document of an apply was not sent, for example because it has no name or names another kind.
    #[error("{kind} {key} cannot be applied: {problem}")]
    NotApplicable {
        /// The kind of the object that was to be applied.
        kind: Kind,
        /// The key of the object, as far as the document names it.
        key: ObjectKey,
        /// The problem with the document, as text.
        problem: String,
    },
    /// An update was not sent: the cache holds the kind through a transform, which may have removed fields.
    #[error(
        "{kind} {key} is cached through the transform {transform:?}, and to replace the object by what that left \
         of it would remove the rest; send the change with `Client::modify`, `patch` or `apply`"
    )]
    Transformed {
        /// The kind that is cached through a transform.
        kind: Kind,
        /// The key of the object that was to be replaced.
        key: ObjectKey,
        /// The name of the transform. An update would also remove the fields that the transform has removed.
        transform: String,
    },
    /// A write of a status that the kind, or the Rust type, does not have.
    #[error("the status of {kind} {key} cannot be written: {}", why_not(.source.is_some()))]
    NoStatus {
        /// The kind of the object without a status.
        kind: Kind,
        /// The key of the object without a status.
        key: ObjectKey,
        /// The error of the server; `None` if the request was not sent because the type has no status.
        #[source]
        source: Option<Box<steersman_api::Error>>,
    },
    /// The fields of a field manager cannot be found, because the object lacks its `managedFields`.
    #[error(
        "{kind} {key} has no managedFields, so the fields of one manager cannot be found: read it live; a cache removes managedFields"
    )]
    NoManagedFields {
        /// The kind of the object without `managedFields`.
        kind: Kind,
        /// The key of the object without `managedFields`.
        key: ObjectKey,
    },
    /// A closure changed the name or the namespace of an object.
    #[error("a change to {kind} {key} may not rename it (to {to}): name and namespace are fixed")]
    Renamed {
        /// The kind of the object that the closure changed.
        kind: Kind,
        /// The key of the object as it was read.
        key: ObjectKey,
        /// The key that the closure gave the object.
        to: ObjectKey,
    },
    /// The awaited object did not meet the condition before the time limit.
    #[error(
        "{kind} {key} did not meet the condition `{condition}` within {timeout:?}: {last_seen}"
    )]
    ConditionNotMet {
        /// The kind of the awaited object.
        kind: Kind,
        /// The key of the awaited object.
        key: ObjectKey,
        /// The name of the condition: see [`Condition::named`](crate::Condition::named).
        condition: String,
        /// The time limit of the wait.
        timeout: Duration,
        /// The last state of the object that the wait saw.
        last_seen: Box<LastSeen>,
        /// The error of the watch; `None` if the kind could be read at the end of the wait.
        #[source]
        source: Option<Box<steersman_cache::Error>>,
    },
    /// An object, or the document of an apply, does not encode as JSON, so no request was sent.
    #[error("{kind} {key} could not be written as JSON")]
    Encode {
        /// The kind of the object that does not encode.
        kind: Kind,
        /// The key of the object that does not encode.
        key: ObjectKey,
        /// The error of the JSON encoder.
        #[source]
        source: serde_json::Error,
    },
    /// A live read selects by an index, which exists in the cache only.
    #[error("{kind} is read live here, and the field index {index:?} exists in the cache only")]
    IndexNeedsCache {
        /// The kind of the objects that were to be selected.
        kind: Kind,
        /// The name of the index in the list options.
        index: String,
    },
    /// A list failed, because the cache did not see the earlier writes of the same reconcile request in time. A later
    /// list succeeds once the cache has seen these writes.
    #[error(
        "the cache of {kind} has not seen the writes of this key to {} within {waited:?}: try again later", first_few(.unseen, ToString::to_string)
    )]
    OwnWritesUnseen {
        /// The kind of the objects that were to be listed.
        kind: Kind,
        /// How long the list waited at most: [`ClientOptions::own_write_wait`](crate::ClientOptions::own_write_wait).
        waited: Duration,
        /// The keys of the written objects that the cache does not show yet.
        unseen: Vec<ObjectKey>,
    },
    /// An owner reference could not be set, or the owner does not control the object.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// A CustomResourceDefinition was not installed, because stored objects would lose fields.
    #[error(transparent)]
    Definition(#[from] steersman_crds::Error),
}

/// A field of an apply that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldConflict {
    /// The manager that owns the field.
    pub manager: String,
    /// The subresource through which the field was set, if any.
    pub subresource: Option<String>,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

impl Error {
    /// Returns whether the object is absent: on the server, in the cache, or because another object has its name.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Cache(error) => error.is_not_found(),
            Self::Api(error) => error.is_not_found(),
            Self::Replaced { .. } => true,
            _ => false,
        }
    }

    /// Returns whether an object was not created because its name is taken.
    pub fn is_already_exists(&self) -> bool {
        match self {
            Self::Api(error) => error.is_already_exists(),
            Self::Hidden { .. } => true,
            _ => false,
        }
    }

    /// Returns whether the server refused the write because the object is in another state than the write requires: the
    /// object has changed since it was read, it is another object of the name, or other managers own applied fields.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Api(error) => error.is_conflict(),
            Self::KeptChanging { .. } | Self::ApplyConflict { .. } | Self::NotAsFound { .. } => {
                true
            }
            _ => false,
        }
    }

    /// Returns whether an object exists but does not decode. Such an object is not absent.
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Cache(error) => error.is_malformed(),
            Self::Api(error) => error.is_decode(),
            _ => false,
        }
    }

    /// Returns whether the server does not allow the request (403).
    pub fn is_forbidden(&self) -> bool {
        self.says(steersman_api::Error::is_forbidden)
    }

    /// Returns whether the server does not accept the credentials (401).
    pub fn is_unauthorized(&self) -> bool {
        self.says(steersman_api::Error::is_unauthorized)
    }

    /// Returns whether the object, or the change to it, is invalid (422). The same request fails again.
    pub fn is_invalid(&self) -> bool {
        // The server may answer 422 because the object has another uid than the object that was found. Such a request
        // is not invalid: another attempt, after a new read, can succeed.
        let is_of_another = matches!(self, Self::NotAsFound { .. });
        !is_of_another && self.says(steersman_api::Error::is_invalid)
    }

    /// Returns whether the server throttles its clients, or a disruption budget forbids an eviction at present (429).
    pub fn is_throttled(&self) -> bool {
        self.says(steersman_api::Error::is_throttled)
    }

    /// Returns the time to wait before another attempt, if the server named a time (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        self.api()?.retry_after()
    }

    /// Returns whether the requested resource version, or the next page of a list, is no longer available (410).
    pub fn is_expired(&self) -> bool {
        self.says(steersman_api::Error::is_expired)
    }

    /// Returns whether the server took too long (`Timeout`, `ServerTimeout`). The server may have executed the request.
    pub fn is_timeout(&self) -> bool {
        self.says(|error| error.is_timeout() || error.is_server_timeout())
    }

    /// Returns whether the server failed internally (500).
    pub fn is_internal(&self) -> bool {
        self.says(steersman_api::Error::is_internal)
    }

    /// Returns whether the server does not serve this kind, or this subresource of the kind.
    pub fn is_kind_not_served(&self) -> bool {
        self.says(steersman_api::Error::is_kind_not_served)
    }

    /// Returns whether the server serves the kind, but not with this verb.
    pub fn is_method_not_supported(&self) -> bool {
        self.says(steersman_api::Error::is_method_not_supported)
    }

    /// Returns whether the namespace is being deleted, so that nothing can be created in it.
    pub fn is_namespace_terminating(&self) -> bool {
        self.says(steersman_api::Error::is_namespace_terminating)
    }

    /// Returns whether a kind cannot be read from the cache because its informer has not synced; the message has the
    /// reason.
    pub fn is_unavailable(&self) -> bool {
        self.cache()
            .is_some_and(steersman_cache::Error::is_unavailable)
    }

    /// Returns whether the namespace is outside the scope of the cache, or is another namespace than the one that the
    /// client is limited to.
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

    /// Returns the error of the cache; `None` for other errors.
    pub fn cache(&self) -> Option<&steersman_cache::Error> {
        match self {
            Self::Cache(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the error of the server or the transport; `None` for other errors.
    pub fn api(&self) -> Option<&steersman_api::Error> {
        match self {
            Self::Api(error) => Some(error),
            Self::Hidden { source, .. }
            | Self::KeptChanging { source, .. }
            | Self::NotAsFound { source, .. }
            | Self::ApplyConflict { source, .. } => Some(&**source),
            Self::NoStatus { source, .. } => source.as_deref(),
            _ => None,
        }
    }

    /// Returns the selectors of the cache that may hide the object, as text; `None` if no selector can hide it.
    pub fn scoped_by(&self) -> Option<&str> {
        match self {
            Self::Cache(error) => error.scoped_by(),
            Self::Hidden { scoped_by, .. } => Some(scoped_by),
            _ => None,
        }
    }

    /// Returns the fields of a refused apply that other managers own; empty for any other error.
    pub fn conflicts(&self) -> &[FieldConflict] {
        match self {
            Self::ApplyConflict { conflicts, .. } => conflicts,
            _ => &[],
        }
    }

    /// Returns whether the server may have executed the failed write: the connection broke, the answer could not be
    /// read, or the answer is a 5xx.
    pub fn is_outcome_unknown(&self) -> bool {
        self.api().is_some_and(is_unknown)
    }
}

/// Returns the reason why a status cannot be written, and the remedy. `was_asked` is true if the server has refused the
/// write because its kind has no status, and false if the Rust type has none, so that no request was sent.
fn why_not(was_asked: bool) -> &'static str {
    if was_asked {
        "the server serves no status of this kind; enable `subresources.status` in its definition, or write the \
         object itself where the kind has no status"
    } else {
        "its Rust type has no field `status`; write the object itself with `modify`, or use a type that holds the \
         status"
    }
}

/// Turns the error that an object is absent into `None`, and returns other errors unchanged.
pub(crate) fn absent_is_none<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the first few conflicts as text: `"helm" owns .spec.replicas, …`.
fn listed(conflicts: &[FieldConflict]) -> String {
    first_few(conflicts, |FieldConflict { manager, field, .. }| {
        format!("{manager:?} owns {field}")
    })
}

fn first_few<T>(all: &[T], show: impl Fn(&T) -> String) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = all.iter().take(SHOWN).map(show).collect();
    let mut text = shown.join(", ");
    if let Some(more) = all.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        text.push_str(&format!(", and {more} more"));
    }
    text
}
