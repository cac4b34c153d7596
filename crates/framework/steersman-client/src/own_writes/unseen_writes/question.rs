//! Machine: the writes with an unknown result (questions), which the server is asked about before the cache is read.

use std::time::{Duration, Instant};

use steersman_object::{ObjectKey, ResourceVersion};

use super::{Read, WriterHash, is_within};

/// The time after which a write with an unknown result may be forgotten without an answer. A server ends a request
/// after a minute, and an informer that follows the server has seen the result long before this time is over, so the
/// cache then shows it.
pub(super) const UNKNOWN_FOR: Duration = Duration::from_secs(3600);
/// The number of characters of `generateName` that a generated name keeps; the server appends a random suffix
/// (apiserver, `names.MaxGeneratedNameLength`).
const GENERATED_FROM: usize = 58;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UncertainObject {
    Object(ObjectKey),
    /// An object with a name that the server generated and that is unknown, because the answer was lost: its name
    /// begins with `prefix`.
    Generated {
        namespace: Option<String>,
        prefix: String,
    },
}

/// A write with an unknown result, which later reads must see. It is remembered until the server was asked about it
/// (RYOW-3), or until the informer has reached the version of the write, if this version is known (RYOW-8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) subject: UncertainObject,
    pub(crate) writer: WriterHash,
    /// The resource version that the write gave the object, if known. An informer that has reached this version shows
    /// the result.
    pub(crate) version: Option<ResourceVersion>,
    pub(super) since: Instant,
    pub(super) serial: u64,
}

impl Question {
    /// Returns whether the write is so old that the server need not be asked about its result any more.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= UNKNOWN_FOR
    }

    /// Merges the questions about two writes to the same object. The result has the newer version, or none if one write
    /// has none, because no version of the cache tells then that it shows both writes.
    pub(super) fn joined(mut self, known: &Self) -> Self {
        let newer = |a: &ResourceVersion, b: &ResourceVersion| match a.is_at_least(b) {
            true => a.clone(),
            false => b.clone(),
        };
        let versions = self.version.as_ref().zip(known.version.as_ref());
        self.version = versions.map(|(a, b)| newer(a, b));
        self
    }
}

impl UncertainObject {
    /// Describes the object of a create with `generateName` and without an answer: only the beginning of its name is
    /// known.
    pub(crate) fn generated(namespace: Option<&str>, generate_name: &str) -> Self {
        let prefix = generate_name.get(..GENERATED_FROM);
        Self::Generated {
            namespace: namespace.map(ToOwned::to_owned),
            prefix: prefix.unwrap_or(generate_name).to_owned(),
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Object(key) => key.namespace(),
            Self::Generated { namespace, .. } => namespace.as_deref(),
        }
    }

    /// Returns the name of the object; `None` if the server generates it.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Object(key) => Some(key.name()),
            Self::Generated { .. } => None,
        }
    }

    pub(crate) fn could_be(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Object(subject) => subject == key,
            Self::Generated { namespace, prefix } => {
                namespace.as_deref() == key.namespace() && key.name().starts_with(&**prefix)
            }
        }
    }

    /// Returns whether a read could show the result of a write to this object. The selectors of a list are not
    /// considered, because the write may have changed what they match.
    pub(super) fn concerns(&self, read: Read<'_>) -> bool {
        match read {
            Read::Object(key) => self.could_be(key),
            Read::List(namespace) => is_within(namespace, self.namespace()),
        }
    }
}
