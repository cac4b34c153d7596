//! Words: references to the objects that events are about.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use steersman_object::{AsObject, Kind, Object, ObjectKey, TypedObject};

/// A reference to the object that an event is about.
///
/// Two references are equal if they name the same object. The resource version is not compared, so that repeated events
/// of a changing object form one series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    field_path: Option<String>,
}

/// An object that events can be about: every typed object (metadata of a typed kind included), an `Arc` of one, and
/// [`ObjectRef`], which is made of any object and its kind. `K` is the type of the object; the compiler infers it.
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, ObjectReference};
/// use kube_core::{DynamicObject, Resource as _};
/// use steersman_events::{ObjectRef, Regarding};
/// use steersman_object::Kind;
///
/// let mut node = Node::default();
/// node.metadata.name = Some("worker-1".into());
/// // Typed: the object itself.
/// assert_eq!(node.reference().to_string(), "Node worker-1");
///
/// // Dynamic: the object and its kind.
/// let kind = Kind::of::<Node>();
/// let dynamic = DynamicObject::new("worker-1", &kind.api_resource());
/// assert_eq!(ObjectRef::new(&kind, &dynamic), node.reference());
///
/// // A reference of kube-rs.
/// let reference: ObjectReference = node.object_ref(&());
/// assert_eq!(ObjectRef::from(reference), node.reference());
/// ```
#[diagnostic::on_unimplemented(
    message = "events cannot be about `{Self}`: its kind is unknown",
    note = "for `DynamicObject` and other types without a kind, name one: `ObjectRef::new(&kind, &object)`"
)]
pub trait Regarding<K> {
    /// Returns the reference to the object.
    fn reference(&self) -> ObjectRef;
}

#[diagnostic::do_not_recommend]
impl<K: TypedObject, T: AsObject<K>> Regarding<K> for T {
    fn reference(&self) -> ObjectRef {
        ObjectRef::new(&Kind::of::<K>(), self)
    }
}

impl Regarding<Self> for ObjectRef {
    fn reference(&self) -> ObjectRef {
        self.clone()
    }
}

impl ObjectRef {
    /// Makes the reference to an object of `kind`: typed, dynamic, or metadata only.
    #[must_use]
    pub fn new<K: Object>(kind: &Kind, object: &impl AsObject<K>) -> Self {
        let object = object.as_object();
        let mut reference = Self::of_key(kind, &object.key());
        let uid = object.uid_str();
        reference.uid = Some(uid.to_owned()).filter(|uid| !uid.is_empty());
        reference
    }

    /// Makes the reference to the object of `kind` with this key, without a uid: `kubectl describe`
    /// may not show its events, `kubectl get events` does.
    #[must_use]
    pub fn of_key(kind: &Kind, key: &ObjectKey) -> Self {
        Self {
            api_version: kind.gvk().api_version(),
            kind: kind.gvk().kind().to_owned(),
            namespace: key.namespace().map(ToOwned::to_owned),
            name: key.name().to_owned(),
            uid: None,
            field_path: None,
        }
    }

    /// Names the part of the object that the event is about, such as `spec.containers{web}`.
    #[must_use]
    pub fn field_path(mut self, path: impl Into<String>) -> Self {
        self.field_path = Some(path.into());
        self
    }

    /// Returns the name of the object; empty if it has none yet.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace of the object; `None` if the object is cluster-scoped.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn to_reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.clone()),
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            uid: self.uid.clone(),
            field_path: self.field_path.clone(),
            resource_version: None,
        }
    }
}

/// Converts the reference of kube-core's `Resource::object_ref`, without its resource version.
impl From<ObjectReference> for ObjectRef {
    fn from(reference: ObjectReference) -> Self {
        let set = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self {
            api_version: reference.api_version.unwrap_or_default(),
            kind: reference.kind.unwrap_or_default(),
            namespace: set(reference.namespace),
            name: reference.name.unwrap_or_default(),
            uid: set(reference.uid),
            field_path: set(reference.field_path),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
