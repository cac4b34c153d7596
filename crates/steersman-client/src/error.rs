//! Words: why a read or a write failed: the cache, the server, or what was asked.

use steersman_object::owner::OwnerError;
use steersman_object::{Kind, ObjectKey};
use thiserror::Error as ThisError;

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
    /// An owner could not be set.
    #[error(transparent)]
    Owner(#[from] OwnerError),
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
            Self::KeptChanging { .. } => true,
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
        self.api().is_some_and(steersman_api::Error::is_forbidden)
    }

    /// What the server, or the way to it, said; `None` where it was not asked.
    #[must_use]
    pub fn api(&self) -> Option<&steersman_api::Error> {
        match self {
            Self::Api(error) => Some(error),
            Self::Hidden { source, .. } | Self::KeptChanging { source, .. } => Some(&**source),
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
}
