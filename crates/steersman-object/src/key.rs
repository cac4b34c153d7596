//! Words: the one key type that addresses an object within its kind.

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
/// Displays and parses as `namespace/name`, or `name` for a cluster-scoped object. A namespace is
/// never empty: an empty one is no namespace. Cheap to clone: clones share one text.
#[derive(Clone, Eq)]
pub struct ObjectKey {
    /// As it is displayed.
    text: Arc<str>,
    /// Where the name begins: at 0, or behind the slash.
    name: usize,
}

/// A text that is not `name` or `namespace/name`.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not an object key: write `name`, or `namespace/name` for a namespaced object")]
pub struct ParseKeyError {
    text: String,
}

impl ObjectKey {
    /// The key of a namespaced object.
    ///
    /// An empty namespace makes the key of a cluster-scoped object.
    #[must_use]
    pub fn namespaced(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        let (namespace, name) = (namespace.as_ref(), name.as_ref());
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        Self {
            text: [namespace, "/", name].concat().into(),
            name: namespace.len() + 1,
        }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: impl AsRef<str>) -> Self {
        Self {
            text: name.as_ref().into(),
            name: 0,
        }
    }

    /// The key that an object's metadata spells.
    ///
    /// An object that has not been named yet has an empty name.
    #[must_use]
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Self::namespaced(namespace, meta.name.as_deref().unwrap_or_default())
    }

    /// The namespace; `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let end = self.name.checked_sub(1)?;
        self.text.get(..end)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.get(self.name..).unwrap_or_default()
    }

    /// Metadata that spells this key and nothing else: where a new object starts.
    #[must_use]
    pub fn to_meta(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: self.namespace().map(ToOwned::to_owned),
            name: Some(self.name().to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// The key of another name in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: impl AsRef<str>) -> Self {
        Self::namespaced(self.namespace().unwrap_or_default(), name)
    }

    /// The key as objects of the kind have it: those of a cluster-scoped kind have no namespace, whatever
    /// they are asked for with.
    #[must_use]
    pub fn placed(&self, kind: &Kind) -> Cow<'_, Self> {
        match self.namespace() {
            Some(_) if !kind.is_namespaced() => Cow::Owned(Self::cluster(self.name())),
            _ => Cow::Borrowed(self),
        }
    }
}

/// Most keys that are looked up are clones of those they are found under.
impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

/// By namespace, then by name; without a namespace first.
impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.name == other.name {
            // The slashes are at one place.
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

/// Keys that differ in where the slash belongs alone are not worth telling apart here.
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

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() => Self::namespaced(namespace, name),
            Some(_) => {
                return Err(ParseKeyError {
                    text: text.to_owned(),
                });
            }
            None => Self::cluster(text),
        };
        if key.name().is_empty() || key.name().contains('/') {
            return Err(ParseKeyError {
                text: text.to_owned(),
            });
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_is_parsed_again(
            namespace in proptest::option::of("[a-z0-9][a-z0-9-]{0,10}"),
            name in "[a-z0-9][a-z0-9.-]{0,20}",
        ) {
            let key = ObjectKey::namespaced(namespace.unwrap_or_default(), name);
            prop_assert_eq!(&ObjectKey::of_meta(&key.to_meta()), &key);
            prop_assert_eq!(key.to_string().parse::<ObjectKey>(), Ok(key));
        }
    }

    proptest! {
        // '-' and '.' come before the slash.
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
    fn what_is_asked_for_with_a_namespace_has_none_where_its_kind_has_none() {
        let (bare, there) = (ObjectKey::cluster("a"), ObjectKey::namespaced("web", "a"));
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
            ObjectKey::cluster("node-1")
        );
        let meta = ObjectMeta {
            namespace: Some(String::new()),
            name: Some("a".into()),
            ..Default::default()
        };
        assert_eq!(ObjectKey::of_meta(&meta), ObjectKey::cluster("a"));
    }

    #[test]
    fn a_text_that_is_no_key_is_named_in_the_error() {
        for text in ["", "/", "web/", "/site", "a/b/c"] {
            let error = text.parse::<ObjectKey>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
