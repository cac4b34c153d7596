//! Words: what was asked of a server, for errors to name.

use std::borrow::Cow;
use std::fmt;

use steersman_object::{Kind, ObjectKey};

/// What was asked of the server: the verb, the kind and the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    verb: &'static str,
    kind: String,
    plural: String,
    target: Target,
    part: Option<String>,
    /// What a name that the server makes begins with.
    generate_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Everywhere,
    Namespace(String),
    Object(ObjectKey),
    /// Nothing that is an object: what the server says of itself.
    Document,
}

impl Asked {
    /// A request for one object.
    #[must_use]
    pub fn of_object(verb: &'static str, kind: &Kind, key: &ObjectKey) -> Self {
        Self::new(verb, kind, Target::Object(key.clone()))
    }

    /// A request for a collection: of one namespace, or of the whole cluster.
    #[must_use]
    pub fn of_collection(verb: &'static str, kind: &Kind, namespace: Option<&str>) -> Self {
        let target = match namespace {
            Some(namespace) => Target::Namespace(namespace.to_owned()),
            None => Target::Everywhere,
        };
        Self::new(verb, kind, target)
    }

    /// A request for what the server says of itself: `what` is the kind, or the group version, asked for.
    #[must_use]
    pub fn of_document(verb: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self {
            verb,
            plural: what.clone(),
            kind: what,
            target: Target::Document,
            part: None,
            generate_name: None,
        }
    }

    /// The same of a subresource, such as `status`.
    #[must_use]
    pub fn part(mut self, subresource: impl Into<String>) -> Self {
        self.part = Some(subresource.into());
        self
    }

    /// The same of an object whose name the server makes, of this beginning.
    pub(crate) fn generating(mut self, generate_name: Option<&str>) -> Self {
        self.generate_name = generate_name.map(ToOwned::to_owned);
        self
    }

    /// The key for people; of an object that has no name yet, with what the server makes the name of.
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

    fn new(verb: &'static str, kind: &Kind, target: Target) -> Self {
        Self {
            verb,
            kind: kind.to_string(),
            plural: kind.qualified_plural(),
            target,
            part: None,
            generate_name: None,
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

    /// The verb and the target, without the kind.
    pub(crate) fn brief(&self) -> String {
        let verb = self.verb;
        match &self.target {
            Target::Everywhere | Target::Document => verb.to_owned(),
            Target::Namespace(namespace) => format!("{verb} of namespace {namespace}"),
            Target::Object(key) => format!("{verb} of {}", self.shown(key)),
        }
    }

    /// The key, where one object was asked for.
    #[must_use]
    pub fn key(&self) -> Option<&ObjectKey> {
        match &self.target {
            Target::Object(key) => Some(key),
            Target::Namespace(_) | Target::Everywhere | Target::Document => None,
        }
    }

    /// The namespace, where the request was about one or an object in one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match &self.target {
            Target::Object(key) => key.namespace(),
            Target::Namespace(namespace) => Some(namespace),
            Target::Everywhere | Target::Document => None,
        }
    }

    /// The subresource, where one was asked for.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        self.part.as_deref()
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb, kind, plural, ..
        } = self;
        match &self.target {
            Target::Everywhere => write!(f, "{verb} {plural} of all namespaces"),
            Target::Namespace(namespace) => {
                write!(f, "{verb} {plural} of namespace {namespace}")
            }
            Target::Object(key) => match &self.part {
                Some(part) => write!(f, "{verb} {part} of {kind} {key}"),
                None => write!(f, "{verb} {kind} {}", self.shown(key)),
            },
            Target::Document => write!(f, "{verb} {kind}"),
        }
    }
}
