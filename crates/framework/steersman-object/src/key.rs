//! Words: the key that addresses an object within its kind.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

use crate::kind::Kind;

/// The namespace (of a namespaced kind) and the name of an object.
///
/// Displays and parses as `namespace/name`, or `name` for a cluster-scoped object. An empty
/// namespace is the same as none. Cheap to clone: clones share one text.
#[derive(Clone, Eq, derive_more::Debug)]
#[debug("{self}")]
pub struct ObjectKey {
    text: Arc<str>,
    /// The byte offset of the name in the text: 0, or the position after the slash.
    name: usize,
}

/// The error for a text that is neither `name` nor `namespace/name`.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not an object key: write `name`, or `namespace/name` for a namespaced object")]
pub struct ParseKeyError {
    text: String,
}

impl ObjectKey {
    /// Creates the key of a namespaced object.
    ///
    /// An empty namespace creates the key of a cluster-scoped object.
    pub fn namespaced(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        let (namespace, name) = (namespace.as_ref(), name.as_ref());
        if namespace.is_empty() {
            return Self::cluster_scoped(name);
        }
        Self {
            text: [namespace, "/", name].concat().into(),
            name: namespace.len() + 1,
        }
    }

    /// Creates the key of a cluster-scoped object.
    pub fn cluster_scoped(name: impl AsRef<str>) -> Self {
        Self {
            text: name.as_ref().into(),
            name: 0,
        }
    }

    /// Creates the key of the object with this metadata.
    ///
    /// The name is empty if the object has none yet.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Self::namespaced(namespace, meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        let end = self.name.checked_sub(1)?;
        self.text.get(..end)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.text.get(self.name..).unwrap_or_default()
    }

    /// Returns metadata with this namespace and name only, as the start of a new object.
    pub fn to_meta(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: self.namespace().map(ToOwned::to_owned),
            name: Some(self.name().to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// Returns a key with another name and the same namespace.
    #[must_use]
    pub fn sibling(&self, name: impl AsRef<str>) -> Self {
        Self::namespaced(self.namespace().unwrap_or_default(), name)
    }

    /// Returns the key for the scope of a kind: without its namespace if the kind is cluster-scoped.
    pub fn placed(&self, kind: &Kind) -> Cow<'_, Self> {
        match self.namespace() {
            Some(_) if !kind.is_namespaced() => Cow::Owned(Self::cluster_scoped(self.name())),
            _ => Cow::Borrowed(self),
        }
    }
}

/// Compares pointers first, because most keys in lookups are clones of stored keys.
impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

/// Orders by namespace, then by name; keys without a namespace come first.
impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.name == other.name {
            // The slashes are at the same position, so comparing the texts compares the parts.
            return self.text.cmp(&other.text);
        }
        let namespaces = self.namespace().cmp(&other.namespace());
        namespaces.then_with(|| self.name().cmp(other.name()))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Hashes the text only: keys that differ only in the position of the slash may share a hash.
impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = match text.split_once('/') {
            Some(("", _)) => None,
            Some((namespace, name)) => Some(Self::namespaced(namespace, name)),
            None => Some(Self::cluster_scoped(text)),
        };
        let is_named = |key: &Self| !key.name().is_empty() && !key.name().contains('/');
        let refused = || ParseKeyError { text: text.into() };
        key.filter(is_named).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_displayed_key_parses_to_the_same_key(
            namespace in proptest::option::of("[a-z0-9][a-z0-9-]{0,10}"),
            name in "[a-z0-9][a-z0-9.-]{0,20}",
        ) {
            let key = ObjectKey::namespaced(namespace.unwrap_or_default(), name);
            prop_assert_eq!(&ObjectKey::of_meta(&key.to_meta()), &key);
            prop_assert_eq!(key.to_string().parse::<ObjectKey>(), Ok(key));
        }
    }

    proptest! {
        // The characters `-` and `.` sort before the slash, so comparing whole texts would be wrong.
        #[test]
        fn keys_are_ordered_by_namespace_then_by_name(
            one in (proptest::option::of("[a.-]{1,3}"), "[a./-]{0,3}"),
            other in (proptest::option::of("[a.-]{1,3}"), "[a./-]{0,3}"),
        ) {
            let key = |(namespace, name): &(Option<String>, String)| {
                ObjectKey::namespaced(namespace.as_deref().unwrap_or_default(), name)
            };
            prop_assert_eq!(key(&one).cmp(&key(&other)), one.cmp(&other));
            prop_assert_eq!(key(&one) == key(&other), one == other);
            let key = key(&one);
            prop_assert_eq!(key.namespace(), one.0.as_deref());
            prop_assert_eq!(key.name(), one.1);
        }
    }

    #[test]
    fn a_key_of_a_cluster_scoped_kind_loses_its_namespace() {
        let (bare, there) = (
            ObjectKey::cluster_scoped("a"),
            ObjectKey::namespaced("web", "a"),
        );
        let (maps, spaces) = (Kind::of::<ConfigMap>(), Kind::of::<Namespace>());
        assert_eq!(
            (&*there.placed(&maps), &*there.placed(&spaces)),
            (&there, &bare)
        );
        assert_eq!(
            (&*bare.placed(&maps), &*bare.placed(&spaces)),
            (&bare, &bare)
        );
    }

    #[test]
    fn an_empty_namespace_is_no_namespace() {
        assert_eq!(
            ObjectKey::namespaced("", "node-1"),
            ObjectKey::cluster_scoped("node-1")
        );
        let meta = ObjectMeta {
            namespace: Some(String::new()),
            name: Some("a".into()),
            ..Default::default()
        };
        assert_eq!(ObjectKey::of_meta(&meta), ObjectKey::cluster_scoped("a"));
    }

    #[test]
    fn a_parse_error_names_the_text() {
        for text in ["", "/", "web/", "/site", "a/b/c"] {
            let error = text.parse::<ObjectKey>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
