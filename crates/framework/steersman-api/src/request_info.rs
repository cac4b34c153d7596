//! Words: the request that an error is about.

use std::borrow::Cow;
use std::fmt;

use steersman_object::{Kind, ObjectKey};

/// The verb, the kind and the target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    verb: &'static str,
    kind: String,
    plural: String,
    target: RequestTarget,
    part: Option<String>,
    /// The prefix from which the server generates the name.
    pub(crate) generate_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestTarget {
    Everywhere,
    Namespace(String),
    Object(ObjectKey),
    /// A document instead of an object, such as discovery.
    Document,
}

impl RequestInfo {
    /// Describes a request for one object.
    pub fn of_object(verb: &'static str, kind: &Kind, key: &ObjectKey) -> Self {
        Self::new(verb, kind, RequestTarget::Object(key.clone()))
    }

    /// Describes a request for a collection: of one namespace, or of the whole cluster.
    pub fn of_collection(verb: &'static str, kind: &Kind, namespace: Option<&str>) -> Self {
        let target = match namespace {
            Some(namespace) => RequestTarget::Namespace(namespace.to_owned()),
            None => RequestTarget::Everywhere,
        };
        Self::new(verb, kind, target)
    }

    /// Describes a request for a document such as discovery; `what` is the kind or the group version to look up.
    pub fn of_document(verb: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self {
            verb,
            plural: what.clone(),
            kind: what,
            target: RequestTarget::Document,
            part: None,
            generate_name: None,
        }
    }

    /// Describes the same request for a subresource, such as `status`.
    #[must_use]
    pub fn part(mut self, subresource: impl Into<String>) -> Self {
        self.part = Some(subresource.into());
        self
    }

    /// Returns the key as text for people. Without a name, the text has the prefix of the generated name.
    fn shown<'a>(&self, key: &'a ObjectKey) -> Cow<'a, ObjectKey> {
        match &self.generate_name {
            Some(begins) if key.name().is_empty() => {
                let name = format!("{begins}* (generateName)");
                let namespace = key.namespace().unwrap_or_default();
                Cow::Owned(ObjectKey::namespaced(namespace, name))
            }
            _ => Cow::Borrowed(key),
        }
    }

    fn new(verb: &'static str, kind: &Kind, target: RequestTarget) -> Self {
        Self {
            verb,
            kind: kind.to_string(),
            plural: kind.qualified_plural(),
            target,
            part: None,
            generate_name: None,
        }
    }

    /// Returns the verb, as in RBAC rules: `get`, `list`, `watch`, `create`, and so on.
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// Returns the kind, as `Kind.version.group`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the verb and the target, without the kind.
    pub(crate) fn brief(&self) -> String {
        let verb = self.verb;
        match &self.target {
            RequestTarget::Everywhere | RequestTarget::Document => verb.to_owned(),
            RequestTarget::Namespace(namespace) => format!("{verb} of namespace {namespace}"),
            RequestTarget::Object(key) => format!("{verb} of {}", self.shown(key)),
        }
    }

    /// Returns the key of the object; `None` if the request is not for one object.
    pub fn key(&self) -> Option<&ObjectKey> {
        match &self.target {
            RequestTarget::Object(key) => Some(key),
            _ => None,
        }
    }

    /// Returns the namespace of the collection or the object; `None` if there is none.
    pub fn namespace(&self) -> Option<&str> {
        match &self.target {
            RequestTarget::Object(key) => key.namespace(),
            RequestTarget::Namespace(namespace) => Some(namespace),
            RequestTarget::Everywhere | RequestTarget::Document => None,
        }
    }

    /// Returns the subresource; `None` if the request is not for one.
    pub fn subresource(&self) -> Option<&str> {
        self.part.as_deref()
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb, kind, plural, ..
        } = self;
        match &self.target {
            RequestTarget::Everywhere => write!(f, "{verb} {plural} of all namespaces"),
            RequestTarget::Namespace(namespace) => {
                write!(f, "{verb} {plural} of namespace {namespace}")
            }
            RequestTarget::Object(key) => match &self.part {
                Some(part) => write!(f, "{verb} {part} of {kind} {key}"),
                None => write!(f, "{verb} {kind} {}", self.shown(key)),
            },
            RequestTarget::Document => write!(f, "{verb} {kind}"),
        }
    }
}
