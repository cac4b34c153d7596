//! Machine: fills in the namespace of a client that is limited to one namespace.
//!
//! A key, object or list that names another namespace is refused with [`Error::OtherNamespace`]. A key, object or list
//! stays unchanged if the client has no namespace or the kind is cluster-scoped.

use std::borrow::Cow;

use steersman_object::{Kind, ListOptions, Object, ObjectKey};

use crate::error::Error;
use crate::options::ClientOptions;

impl ClientOptions {
    /// Returns the key with the client's namespace filled in.
    ///
    /// # Errors
    ///
    /// [`Error::OtherNamespace`] if the key names another namespace.
    pub(crate) fn key_in_namespace(
        &self,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<ObjectKey, Error> {
        match (self.namespace_of(kind), key.namespace()) {
            (Some(namespace), None) => Ok(ObjectKey::namespaced(namespace, key.name())),
            (Some(namespace), Some(named)) if named != namespace => {
                Err(outside(namespace, kind, key.clone()))
            }
            _ => Ok(key.clone()),
        }
    }

    /// Returns the object, with the client's namespace filled in if the object names no namespace.
    pub(crate) fn object_in_namespace<'a, K: Object>(
        &self,
        kind: &Kind,
        object: &'a K,
    ) -> Result<Cow<'a, K>, Error> {
        let key = object.key();
        let placed = self.key_in_namespace(kind, &key)?;
        if placed == key {
            return Ok(Cow::Borrowed(object));
        }
        let mut filled = object.clone();
        filled.meta_mut().namespace = placed.namespace().map(ToOwned::to_owned);
        Ok(Cow::Owned(filled))
    }

    /// Returns the list options, with the client's namespace filled in if they name no namespace.
    pub(crate) fn list_in_namespace<'a>(
        &self,
        kind: &Kind,
        list_options: &'a ListOptions,
    ) -> Result<Cow<'a, ListOptions>, Error> {
        match (self.namespace_of(kind), list_options.selected_namespace()) {
            (Some(namespace), None) => Ok(Cow::Owned(list_options.clone().namespace(namespace))),
            (Some(namespace), Some(asked)) if asked != namespace => {
                Err(outside(namespace, kind, ObjectKey::namespaced(asked, "*")))
            }
            _ => Ok(Cow::Borrowed(list_options)),
        }
    }

    /// Returns the namespace to fill in for a kind; `None` for a cluster-scoped kind or a client without a namespace.
    fn namespace_of(&self, kind: &Kind) -> Option<&str> {
        self.namespace.as_deref().filter(|_| kind.is_namespaced())
    }
}

fn outside(namespace: &str, kind: &Kind, key: ObjectKey) -> Error {
    Error::OtherNamespace {
        kind: kind.clone(),
        key,
        namespace: namespace.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    #[test]
    fn a_namespace_is_filled_in_kept_or_refused() {
        let (maps, spaces) = (Kind::of::<ConfigMap>(), Kind::of::<Namespace>());
        let (bare, there) = (
            ObjectKey::cluster_scoped("a"),
            ObjectKey::namespaced("web", "a"),
        );
        let (web, other) = (
            ClientOptions::new().namespace("web"),
            ClientOptions::new().namespace("other"),
        );
        assert_eq!(web.key_in_namespace(&maps, &bare).unwrap(), there);
        assert_eq!(web.key_in_namespace(&maps, &there).unwrap(), there);
        assert_eq!(web.key_in_namespace(&spaces, &bare).unwrap(), bare);
        let everywhere = ClientOptions::new();
        assert_eq!(everywhere.key_in_namespace(&maps, &bare).unwrap(), bare);
        let error = other.key_in_namespace(&maps, &there).unwrap_err();
        assert!(matches!(error, Error::OtherNamespace { .. }), "{error}");

        let (all, elsewhere) = (ListOptions::new(), ListOptions::new().namespace("other"));
        let placed = web.list_in_namespace(&maps, &all).unwrap();
        assert_eq!(placed.selected_namespace(), Some("web"));
        let placed = web.list_in_namespace(&spaces, &all).unwrap();
        assert_eq!(placed.selected_namespace(), None);
        assert!(web.list_in_namespace(&maps, &elsewhere).is_err());

        let map = ConfigMap::default();
        let placed = web.object_in_namespace(&maps, &map).unwrap();
        assert_eq!(placed.metadata.namespace.as_deref(), Some("web"));
    }
}
