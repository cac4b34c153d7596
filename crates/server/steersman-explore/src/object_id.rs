//! Words: the identity of an object, and the objects of a cluster by their identities.

use std::collections::BTreeMap;

use serde_json::Value;

/// The kind, namespace and name of an object. Displayed as `ConfigMap shop/pages`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The API group; empty for core.
    pub group: String,
    /// The kind, such as `ConfigMap`.
    pub kind: String,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// All objects that a server stores, by their identities.
pub type ObjectMap = BTreeMap<ObjectId, Value>;

impl ObjectId {
    /// Returns the identity of an object, by its `apiVersion`, `kind` and metadata. Absent members count as empty.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }

    /// Returns the objects of a list by their identities.
    #[must_use]
    pub fn map(objects: impl IntoIterator<Item = Value>) -> ObjectMap {
        let entries = objects
            .into_iter()
            .map(|object| (Self::of(&object), object));
        entries.collect()
    }
}

impl std::fmt::Display for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
