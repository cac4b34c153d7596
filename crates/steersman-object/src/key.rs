//! Words: the one key type that addresses an object within its kind.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

/// The namespace (of a namespaced kind) and the name of an object.
///
/// Displays and parses as `namespace/name`, or `name` for a cluster-scoped object. A namespace is
/// never empty: an empty one is no namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: Option<String>,
    name: String,
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
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()).filter(|n| !n.is_empty()),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key that an object's metadata spells.
    ///
    /// An object that has not been named yet has an empty name.
    #[must_use]
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().filter(|n| !n.is_empty()),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The namespace; `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Metadata that spells this key and nothing else: where a new object starts.
    #[must_use]
    pub fn to_meta(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        }
    }

    /// The key of another name in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: impl Into<String>) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
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
        if key.name.is_empty() || key.name.contains('/') {
            return Err(ParseKeyError {
                text: text.to_owned(),
            });
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_is_parsed_again(
            namespace in proptest::option::of("[a-z0-9][a-z0-9-]{0,10}"),
            name in "[a-z0-9][a-z0-9.-]{0,20}",
        ) {
            let key = ObjectKey { namespace, name };
            prop_assert_eq!(&ObjectKey::of_meta(&key.to_meta()), &key);
            prop_assert_eq!(key.to_string().parse::<ObjectKey>(), Ok(key));
        }
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
