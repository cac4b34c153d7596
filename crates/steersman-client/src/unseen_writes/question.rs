//! Machine: what the server has to be asked about before the cache is read again.

use std::time::{Duration, Instant};

use steersman_object::{ObjectKey, ResourceVersion};

use super::{Read, Writer, is_within};

/// How long a question is kept at least, where no version ends it. Whatever became of the write was over within the
/// minute that a server gives a request, and an informer that follows the server has seen it long before this: a
/// later read has it from the cache.
pub(super) const UNKNOWN_FOR: Duration = Duration::from_secs(3600);
/// The number of characters of a generated name that are the `generateName`; the server adds the rest
/// (apiserver, `names.MaxGeneratedNameLength`).
const GENERATED_FROM: usize = 58;

/// What a write was about of which it is not known what the cache has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Object(ObjectKey),
    /// An object whose name the server was to make.
    Generated {
        namespace: Option<String>,
        prefix: String,
    },
}

/// That it is not known what the cache has to show of a write. A question stays until the server was asked about exactly
/// that (RYOW-3), or the informer has passed the version of the write, where that is known (RYOW-8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) subject: Subject,
    pub(crate) writer: Writer,
    /// The version of the write: an informer that has come so far shows what became of it.
    pub(crate) version: Option<ResourceVersion>,
    pub(super) since: Instant,
    pub(super) serial: u64,
}

impl Question {
    /// Whether it may be forgotten though the server was never asked.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= UNKNOWN_FOR
    }

    /// The same question, once more: where one of the two writes has no known version, no version ends it.
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

impl Subject {
    /// An object whose name the server was to make of this.
    pub(crate) fn generated(namespace: Option<&str>, generate_name: &str) -> Self {
        let prefix = generate_name.get(..GENERATED_FROM);
        Self::Generated {
            namespace: namespace.map(ToOwned::to_owned),
            prefix: prefix.unwrap_or(generate_name).to_owned(),
        }
    }

    /// The namespace that it is in, where it is in one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Object(key) => key.namespace(),
            Self::Generated { namespace, .. } => namespace.as_deref(),
        }
    }

    /// The name; `None` where the server was to make it.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Object(key) => Some(key.name()),
            Self::Generated { .. } => None,
        }
    }

    /// Whether the write could have been about the object of this key.
    pub(crate) fn could_be(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Object(subject) => subject == key,
            Self::Generated { namespace, prefix } => {
                namespace.as_deref() == key.namespace() && key.name().starts_with(&**prefix)
            }
        }
    }

    /// Whether a read could show what became of the write. What a list selects by is not looked at: a write may
    /// have changed it.
    pub(super) fn concerns(&self, read: Read<'_>) -> bool {
        match read {
            Read::Object(key) => self.could_be(key),
            Read::List(namespace) => is_within(namespace, self.namespace()),
        }
    }
}
