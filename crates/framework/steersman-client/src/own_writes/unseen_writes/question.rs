//! Machine: the writes with an unknown result (questions). The server is asked about them before the cache is read.

use std::time::{Duration, Instant};

use steersman_object::{ObjectKey, ResourceVersion};

use super::{Read, WriterHash, is_within};

/// The time after which a write with an unknown result may be forgotten without asking the server. A server ends a
/// request after a minute, so an informer that follows the server has seen the result long before this time is over.
pub(super) const UNKNOWN_FOR: Duration = Duration::from_secs(3600);
/// The number of characters of `generateName` that a generated name begins with; the server appends a random suffix
/// (apiserver, `names.MaxGeneratedNameLength`).
const GENERATED_FROM: usize = 58;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UncertainObject {
    Object(ObjectKey),
    /// An object with a name that the server has generated: the answer was lost, so only the beginning of the name,
    /// `prefix`, is known.
    Generated {
        namespace: Option<String>,
        prefix: String,
    },
}

/// A write with an unknown result, which later reads must see. It is remembered until the server has been asked about
/// it (RYOW-3), or until the informer has reached the version of the write, if that version is known (RYOW-8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) subject: UncertainObject,
    pub(crate) writer: WriterHash,
    /// The resource version that the write gave the object; `None` if it is unknown. An informer that has reached this
    /// version shows the result of the write.
    pub(crate) version: Option<ResourceVersion>,
    pub(super) since: Instant,
    pub(super) serial: u64,
}

impl Question {
    /// Returns whether the write is so old that a cache that follows the server has certainly seen its result.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= UNKNOWN_FOR
    }

    /// Merges the questions about two writes to the same object. The result has the newer of the two versions. It has
    /// no version if one of the writes has none: no version then proves that the cache shows both writes.
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
    /// considered, because the write may have changed whether they select the object.
    pub(super) fn concerns(&self, read: Read<'_>) -> bool {
        match read {
            Read::Object(key) => self.could_be(key),
            Read::List(namespace) => is_within(namespace, self.namespace()),
        }
    }
}
