//! Words: what was asked of a server, for errors to name.

use std::fmt;

use steersman_object::{Kind, ObjectKey};

/// What was asked of the server: the verb, the kind and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    verb: &'static str,
    kind: String,
    plural: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Everywhere,
    Namespace(String),
    Object(ObjectKey),
}

impl Asked {
    /// A request for one object.
    #[must_use]
    pub fn of_object(verb: &'static str, kind: &Kind, key: &ObjectKey) -> Self {
        Self::new(verb, kind, Place::Object(key.clone()))
    }

    /// A request for a collection: of one namespace, or of the whole cluster.
    #[must_use]
    pub fn of_collection(verb: &'static str, kind: &Kind, namespace: Option<&str>) -> Self {
        let place = match namespace {
            Some(namespace) => Place::Namespace(namespace.to_owned()),
            None => Place::Everywhere,
        };
        Self::new(verb, kind, place)
    }

    fn new(verb: &'static str, kind: &Kind, place: Place) -> Self {
        Self {
            verb,
            kind: kind.to_string(),
            plural: kind.qualified_plural(),
            place,
        }
    }

    /// The verb, in the words of Kubernetes: `get`, `list`, `watch`, `create`, and so on.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// The kind, as `Kind.version.group`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The verb and the place, without the kind.
    pub(crate) fn brief(&self) -> String {
        let verb = self.verb;
        match &self.place {
            Place::Everywhere => verb.to_owned(),
            Place::Namespace(namespace) => format!("{verb} of namespace {namespace}"),
            Place::Object(key) => format!("{verb} of {key}"),
        }
    }

    /// The key, where one object was asked for.
    #[must_use]
    pub fn key(&self) -> Option<&ObjectKey> {
        match &self.place {
            Place::Object(key) => Some(key),
            Place::Namespace(_) | Place::Everywhere => None,
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb, kind, plural, ..
        } = self;
        match &self.place {
            Place::Everywhere => write!(f, "{verb} {plural} of all namespaces"),
            Place::Namespace(namespace) => {
                write!(f, "{verb} {plural} of namespace {namespace}")
            }
            Place::Object(key) => write!(f, "{verb} {kind} {key}"),
        }
    }
}
