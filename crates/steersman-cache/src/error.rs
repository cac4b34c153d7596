//! Words: what a cache refuses or cannot answer, and why.

use std::time::Duration;

use steersman_object::{Kind, ObjectKey};
use thiserror::Error as ThisError;

use crate::unsynced::Unsynced;

/// Why a cache did not answer.
///
/// Displays one level; [`source`](std::error::Error::source) has the rest.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The object is not in the cache.
    #[error("{kind} {key} was not found in the cache{}", scope_note(scoped_by.as_deref()))]
    NotFound {
        /// The kind asked for.
        kind: Kind,
        /// The key asked for.
        key: ObjectKey,
        /// The selectors under which this kind is cached, where there are any: the object may
        /// exist and be hidden by them.
        scoped_by: Option<String>,
    },
    /// The object exists, and does not decode as its kind.
    #[error(
        "{kind} {key} exists but does not decode: {problem}; correct it on the server, or the type here"
    )]
    Malformed {
        /// The kind asked for.
        kind: Kind,
        /// The key asked for.
        key: ObjectKey,
        /// What is wrong with it.
        problem: String,
    },
    /// The cache does not run, so it holds nothing.
    #[error(
        "{kind} cannot be read from the cache before it runs: start the manager (or `Cache::run`) first, \
         or read live"
    )]
    NotStarted {
        /// The kind asked for. It is declared now, and will be there once the cache runs.
        kind: Kind,
    },
    /// The cache has stopped: what it held grows old for good, so it answers nothing of it.
    #[error("the cache has stopped: {kind} cannot be read or watched any more")]
    Stopped {
        /// The kind asked for.
        kind: Kind,
    },
    /// [`Cache::run`](crate::Cache::run) was called twice.
    #[error("this cache has been run already: make a new one, it cannot run twice")]
    AlreadyRan,
    /// The options say that this kind is read live.
    #[error("{kind} is declared uncached: read it through `Client::get` or `Client::live`")]
    NotCached {
        /// The kind asked for.
        kind: Kind,
    },
    /// Nothing declared this kind, and it is too sensitive or too large to be cached cluster-wide by
    /// accident.
    #[error(
        "nothing declares {kind}, and a read does not start a cluster-wide cache of it: \
         declare it with `{line}`, or read it through `Client::live`"
    )]
    MustBeDeclared {
        /// The kind asked for.
        kind: Kind,
        /// A line for the cache options that would declare it.
        line: String,
    },
    /// Nothing declared this kind, and the options say that reads do not.
    #[error(
        "nothing declares {kind}, and a read does not start a cache of it (`on_undeclared`): declare \
         it with `{line}`, or read it through `Client::live`"
    )]
    NotDeclared {
        /// The kind asked for.
        kind: Kind,
        /// A line for the cache options that would declare it.
        line: String,
    },
    /// The namespace is outside what the cache looks at.
    #[error(
        "{kind} is cached in {} only, not in {}: widen the scope in `CacheOptions`, or read live",
        named(scope),
        named(std::slice::from_ref(asked))
    )]
    OutsideScope {
        /// The kind asked for.
        kind: Kind,
        /// The namespace asked for. Who asks for all of them gets those that are cached.
        asked: String,
        /// The namespaces that are cached.
        scope: Vec<String>,
    },
    /// A kind cached in several namespaces has several informers, and one was asked for.
    #[error(
        "{kind} is cached by one informer for each of {}: use `Cache::informers`",
        named(scope)
    )]
    SeveralInformers {
        /// The kind asked for.
        kind: Kind,
        /// The namespaces that are cached.
        scope: Vec<String>,
    },
    /// A namespaced object was asked for without a namespace.
    #[error("{kind} is namespaced, and the key {key} has no namespace")]
    NamespaceMissing {
        /// The kind asked for.
        kind: Kind,
        /// The key asked for.
        key: ObjectKey,
    },
    /// The kind never synced, and its informer knows why.
    #[error("{0}")]
    Unavailable(Unsynced),
    /// Some kinds did not sync in time.
    #[error("the cache did not sync within {timeout:?}: {}", joined(unsynced))]
    SyncTimeout {
        /// How long was waited.
        timeout: Duration,
        /// Every kind that did not sync, and what is known about it.
        unsynced: Vec<Unsynced>,
    },
    /// A read selects by fields.
    #[error(
        "{kind} cannot be selected by fields in the cache: select by labels or an index, or read live"
    )]
    FieldsNeedServer {
        /// The kind asked for.
        kind: Kind,
    },
    /// No index of that name.
    #[error("{kind} has no field index {index:?}: register it with `Cache::index_field`")]
    NoIndex {
        /// The kind asked for.
        kind: Kind,
        /// The index asked for.
        index: String,
    },
    /// An index was named by a typed key of another type than the one that is read.
    #[error(
        "{kind} is read as {read}, and the field index {index:?} was named by a key of {of}: use the \
         `IndexKey` of the type that is read"
    )]
    IndexOfAnother {
        /// The kind asked for.
        kind: Kind,
        /// The index asked for.
        index: String,
        /// The type that was to be read.
        read: &'static str,
        /// The type that the key is of.
        of: &'static str,
    },
    /// An index of that name exists.
    #[error("{kind} has a field index {index:?} already: each name is registered once")]
    IndexExists {
        /// The kind.
        kind: Kind,
        /// The index.
        index: String,
    },
    /// The name of an index is empty.
    #[error("an index of {kind} has no name: give it one to find objects by")]
    IndexWithoutName {
        /// The kind.
        kind: Kind,
    },
    /// The options contradict themselves.
    #[error("the cache options for {kind} cannot be used: {problem}")]
    Options {
        /// The kind they are for.
        kind: Kind,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The defaults of the options contradict themselves.
    #[error("the defaults of the cache options cannot be used: {problem}")]
    DefaultOptions {
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// No client could be made of the connection.
    #[error("the cache could not connect")]
    Connection(#[source] steersman_api::Error),
    /// The server could not be asked what the cache may read.
    #[error("the server could not be asked what the cache may read")]
    Preflight(#[source] steersman_api::Error),
    /// An informer's task panicked: a defect, and the end of this cache.
    #[error("the informer of {kind} panicked: {message}")]
    Panicked {
        /// The kind of the informer.
        kind: Kind,
        /// What the panic said.
        message: String,
    },
}

impl Error {
    /// Whether the object is absent, or hidden by a selector of the cache.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether an object exists but does not decode: it is not absent.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. })
    }

    /// Whether the kind cannot be read because it has not synced.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::SyncTimeout { .. })
    }

    /// The kinds that have not synced, and why, of an error that says so; else none.
    ///
    /// ```
    /// # fn f(error: &steersman_cache::Error) {
    /// if error.unsynced().iter().any(|unsynced| unsynced.is_forbidden()) {
    ///     println!("a rule is missing: {error}");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn unsynced(&self) -> &[Unsynced] {
        match self {
            Self::Unavailable(unsynced) => std::slice::from_ref(unsynced),
            Self::SyncTimeout { unsynced, .. } => unsynced,
            _ => &[],
        }
    }

    /// Whether the cache has stopped, and so answers nothing any more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// Whether the namespace asked for is not one the cache looks at.
    #[must_use]
    pub fn is_outside_scope(&self) -> bool {
        matches!(self, Self::OutsideScope { .. })
    }

    /// The selectors that may hide the object of a [`NotFound`](Self::NotFound).
    ///
    /// `None` says that the kind is cached without selectors: the object was absent from the server
    /// when the cache last heard of it.
    #[must_use]
    pub fn scoped_by(&self) -> Option<&str> {
        match self {
            Self::NotFound { scoped_by, .. } => scoped_by.as_deref(),
            _ => None,
        }
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

fn scope_note(scoped_by: Option<&str>) -> String {
    scoped_by.map_or_else(String::new, |selectors| {
        format!(" (it may exist: this kind is cached by {selectors} only)")
    })
}

fn named(namespaces: &[String]) -> String {
    match namespaces {
        [one] => format!("namespace {one:?}"),
        several => format!("the namespaces {}", several.join(", ")),
    }
}

fn joined(unsynced: &[Unsynced]) -> String {
    if unsynced.is_empty() {
        return "it was not started".to_owned();
    }
    let lines: Vec<String> = unsynced.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
