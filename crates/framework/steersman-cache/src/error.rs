//! Words: the errors of a cache.

use std::time::Duration;

use steersman_api::Malformed;
use steersman_object::{Kind, ObjectKey, ShardSlot};
use thiserror::Error as ThisError;

use crate::unsynced::Unsynced;

/// An error of a [`Cache`](crate::Cache).
///
/// `Display` omits the causes; [`source`](std::error::Error::source) returns them.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The object is not in the cache: it does not exist, or a selector excludes it.
    #[error("{kind} {key} was not found in the cache{}", scope_note(scoped_by.as_deref()))]
    NotFound {
        /// The kind of the missing object.
        kind: Kind,
        /// The key of the missing object.
        key: ObjectKey,
        /// The selectors under which the kind is cached, if any: they may exclude an object that exists.
        scoped_by: Option<String>,
    },
    /// The object exists, but does not decode as its kind.
    #[error(
        "{kind} {key} exists but does not decode: {problem}; correct the object on the server, or the Rust type"
    )]
    Malformed {
        /// The kind of the object that does not decode.
        kind: Kind,
        /// The key of the object that does not decode.
        key: ObjectKey,
        /// The message of the decoder.
        problem: String,
    },
    /// The cache does not run yet.
    #[error(
        "{kind} cannot be read from the cache before it runs: start the manager (or `Cache::run`) first, \
         or read live"
    )]
    NotStarted {
        /// The kind of the read. An informer for the read exists now, so that the kind is readable once the cache runs
        /// and the informer has synced.
        kind: Kind,
    },
    /// The cache has stopped and no longer serves its objects, because they would become stale.
    #[error("{kind} cannot be read or watched: the cache has stopped")]
    Stopped {
        /// The kind that was to be read or watched.
        kind: Kind,
    },
    /// [`Cache::run`](crate::Cache::run) was called twice.
    #[error("this cache has already run and cannot run twice: create a new cache")]
    AlreadyRan,
    /// The options send reads of this kind to the server.
    #[error("{kind} is declared uncached: read it through `Client::get` or `Client::live`")]
    NotCached {
        /// The kind that the options send to the server.
        kind: Kind,
    },
    /// Nothing declares the kind, and it is too sensitive or too large for an implicit cluster-wide cache.
    #[error(
        "{kind} is not declared, and an undeclared read does not start a cluster-wide cache of it: \
         declare it with `{line}`, or read it through `Client::live`"
    )]
    MustBeDeclared {
        /// The undeclared kind: `Secret` or `ConfigMap`.
        kind: Kind,
        /// The line of the cache options that declares the kind.
        line: String,
    },
    /// Nothing declares the kind, and the options forbid reads of undeclared kinds.
    #[error(
        "{kind} is not declared, and `on_undeclared` forbids undeclared reads: declare \
         it with `{line}`, or read it through `Client::live`"
    )]
    NotDeclared {
        /// The undeclared kind.
        kind: Kind,
        /// The line of the cache options that declares the kind.
        line: String,
    },
    /// The namespace is not cached.
    #[error(
        "{kind} is cached in {} only, not in {}: widen the scope in `CacheOptions`, or read live",
        named(scope),
        named(std::slice::from_ref(asked))
    )]
    OutsideScope {
        /// The kind that was to be read.
        kind: Kind,
        /// The requested namespace. A request for all namespaces returns the objects of the cached namespaces instead
        /// of this error.
        asked: String,
        /// The namespaces in which the kind is cached.
        scope: Vec<String>,
    },
    /// The cache does not hold the slot of the object, so the object may exist.
    #[error("{kind} {key} is in slot {slot}: {}", slot_note(*is_wanted))]
    ForeignSlot {
        /// The kind that was to be read.
        kind: Kind,
        /// The key of the requested object.
        key: ObjectKey,
        /// The slot of the object.
        slot: ShardSlot,
        /// Whether this replica wants to hold the slot, and has not listed its objects yet.
        is_wanted: bool,
    },
    /// A namespace cannot be added to or removed from the scope of the cache.
    #[error("the cache cannot add or remove namespace {namespace:?}: {problem}")]
    Scope {
        /// The namespace to add or to remove.
        namespace: String,
        /// The reason why the namespace cannot be added or removed.
        problem: String,
    },
    /// The caller requested the only informer of a kind that is cached in several namespaces, with one informer each.
    #[error(
        "{kind} is cached by one informer for each of {}: use `Cache::informers`",
        named(scope)
    )]
    SeveralInformers {
        /// The kind with several informers.
        kind: Kind,
        /// The namespaces in which the kind is cached, with one informer each.
        scope: Vec<String>,
    },
    /// A read of a namespaced object has no namespace.
    #[error("{kind} is namespaced, and the key {key} has no namespace")]
    NamespaceMissing {
        /// The namespaced kind that was to be read.
        kind: Kind,
        /// The key without a namespace.
        key: ObjectKey,
    },
    /// The kind never synced, and its requests fail.
    #[error("{0}")]
    Unavailable(Unsynced),
    /// Kinds did not sync within the sync timeout.
    #[error("the cache did not sync within {timeout:?}: {}", joined(unsynced))]
    SyncTimeout {
        /// The time that the caller waited: see [`CacheOptions::sync_timeout`](crate::CacheOptions::sync_timeout).
        timeout: Duration,
        /// A report on each kind that did not sync; empty if the cache was not started.
        unsynced: Vec<Unsynced>,
    },
    /// A cached read selects by fields, but only the server can evaluate field selectors.
    #[error(
        "{kind} cannot be selected by fields in the cache: select by labels or an index, or read live"
    )]
    FieldsNeedServer {
        /// The kind of the list.
        kind: Kind,
    },
    /// The kind has no index of this name.
    #[error(
        "{kind} has no field index {index:?}: register it with `Cache::index_field` before a controller that uses \
         it is added, or before the read"
    )]
    NoIndex {
        /// The kind without this index.
        kind: Kind,
        /// The requested name: no index of the kind has this name.
        index: String,
    },
    /// A read as one type names an index by a typed key of another type.
    #[error(
        "{kind} is read as {read}, but the key of the field index {index:?} has the type {of}: use the \
         `IndexKey` of the type of the read"
    )]
    IndexOfAnother {
        /// The kind of the list.
        kind: Kind,
        /// The name of the index.
        index: String,
        /// The Rust type that the objects are read as.
        read: &'static str,
        /// The Rust type that the typed key belongs to.
        of: &'static str,
    },
    /// The kind has an index of this name already.
    #[error("{kind} already has a field index {index:?}: register each name once")]
    IndexExists {
        /// The kind of the indexed objects.
        kind: Kind,
        /// The name that another index of the kind has.
        index: String,
    },
    /// The name of an index is empty.
    #[error("an index of {kind} has an empty name: use a non-empty name")]
    IndexWithoutName {
        /// The kind of the indexed objects.
        kind: Kind,
    },
    /// The cache options of one kind contradict themselves.
    #[error("the cache options for {kind} cannot be used: {problem}")]
    Options {
        /// The kind that the options are for.
        kind: Kind,
        /// The contradiction and its remedy.
        problem: String,
    },
    /// The default options contradict themselves.
    #[error("the defaults of the cache options cannot be used: {problem}")]
    DefaultOptions {
        /// The contradiction and its remedy.
        problem: String,
    },
    /// No client can be created from the client configuration.
    #[error("the cache could not connect")]
    Connection(#[source] steersman_api::Error),
    /// A request of the preflight failed.
    #[error("the permissions of the cache could not be checked")]
    Preflight(#[source] steersman_api::Error),
    /// The task of an informer panicked, and so the cache has ended.
    #[error("the informer of {kind} panicked: {message}")]
    Panicked {
        /// The kind that the informer caches.
        kind: Kind,
        /// The message of the panic, as the runtime reports it.
        message: String,
    },
}

impl Error {
    /// Returns the error of a read that finds an object which does not decode.
    pub(crate) fn malformed(kind: &Kind, problem: Malformed) -> Self {
        Self::Malformed {
            kind: kind.clone(),
            key: problem.key,
            problem: problem.error,
        }
    }

    /// Returns whether the object is absent, or excluded by a selector of the cache.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns whether the object exists but does not decode.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. })
    }

    /// Returns whether the kind cannot be read because it has not synced.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::SyncTimeout { .. })
    }

    /// Returns the reports on unsynced kinds of this error; empty for other errors.
    ///
    /// ```
    /// # fn f(error: &steersman_cache::Error) {
    /// if error.unsynced().iter().any(|unsynced| unsynced.is_forbidden()) {
    ///     println!("a rule is missing: {error}");
    /// }
    /// # }
    /// ```
    pub fn unsynced(&self) -> &[Unsynced] {
        match self {
            Self::Unavailable(unsynced) => std::slice::from_ref(unsynced),
            Self::SyncTimeout { unsynced, .. } => unsynced,
            _ => &[],
        }
    }

    /// Returns whether the cache has stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// Returns whether the requested namespace is not cached.
    pub fn is_outside_scope(&self) -> bool {
        matches!(self, Self::OutsideScope { .. })
    }

    /// Returns whether the cache does not hold the slot of the object, so that the object may exist.
    pub fn is_foreign_slot(&self) -> bool {
        matches!(self, Self::ForeignSlot { .. })
    }

    /// Returns the selectors that may exclude the object of a [`NotFound`](Self::NotFound).
    ///
    /// For a `NotFound`, `None` means that the kind is cached without selectors: the object was absent in the latest
    /// state that the cache received. For other errors the result is always `None`.
    pub fn scoped_by(&self) -> Option<&str> {
        match self {
            Self::NotFound { scoped_by, .. } => scoped_by.as_deref(),
            _ => None,
        }
    }
}

/// Replaces [`Error::NotFound`] by `None`.
pub(crate) fn absent_is_none<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn scope_note(scoped_by: Option<&str>) -> String {
    scoped_by.map_or_else(String::new, |selectors| {
        format!(" (it may exist: this kind is cached by {selectors} only)")
    })
}

fn slot_note(is_wanted: bool) -> &'static str {
    match is_wanted {
        true => {
            "this replica has not loaded the slot yet: wait for it, or read it with client.live()"
        }
        false => {
            "another replica owns this slot: read it with client.live(), or declare the kind everywhere \
             (`ByObject::everywhere`)"
        }
    }
}

fn named(namespaces: &[String]) -> String {
    match namespaces {
        [one] => format!("namespace {one:?}"),
        several => format!("the namespaces {}", several.join(", ")),
    }
}

fn joined(unsynced: &[Unsynced]) -> String {
    if unsynced.is_empty() {
        return "the cache was not started".to_owned();
    }
    let lines: Vec<String> = unsynced.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
