//! Machine: fills in the namespace of a client that is limited to one namespace.

use std::borrow::Cow;

use steersman_object::{Kind, Object, ObjectKey};

use crate::error::Error;

/// Returns the key with the client's namespace filled in. The key stays unchanged if the client has no namespace or the
/// kind is cluster-scoped.
///
/// # Errors
///
/// [`Error::OtherNamespace`] if the key names another namespace.
pub(crate) fn key_in_namespace(
    namespace: Option<&str>,
    kind: &Kind,
    key: &ObjectKey,
) -> Result<ObjectKey, Error> {
    let Some(namespace) = namespace.filter(|_| kind.is_namespaced()) else {
        return Ok(key.clone());
    };
    match key.namespace() {
        None => Ok(ObjectKey::namespaced(namespace, key.name())),
        Some(named) if named == namespace => Ok(key.clone()),
        Some(_) => Err(Error::OtherNamespace {
            kind: kind.clone(),
            key: key.clone(),
            namespace: namespace.to_owned(),
        }),
    }
}

pub(crate) fn object_in_namespace<'a, K: Object>(
    namespace: Option<&str>,
    kind: &Kind,
    object: &'a K,
) -> Result<Cow<'a, K>, Error> {
    let key = object.key();
    let placed = key_in_namespace(namespace, kind, &key)?;
    if placed == key {
        return Ok(Cow::Borrowed(object));
    }
    let mut filled = object.clone();
    filled.meta_mut().namespace = placed.namespace().map(ToOwned::to_owned);
    Ok(Cow::Owned(filled))
}

/// Returns the namespace that a list selects: `asked`, if the caller names one, or else the client's `namespace`. An
/// `asked` other than the client's is an error.
pub(crate) fn list_namespace<'a>(
    namespace: Option<&'a str>,
    kind: &Kind,
    asked: Option<&'a str>,
) -> Result<Option<&'a str>, Error> {
    match (namespace.filter(|_| kind.is_namespaced()), asked) {
        (Some(namespace), Some(asked)) if namespace != asked => Err(Error::OtherNamespace {
            kind: kind.clone(),
            key: ObjectKey::namespaced(asked, "*"),
            namespace: namespace.to_owned(),
        }),
        (namespace, asked) => Ok(asked.or(namespace)),
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
        assert_eq!(key_in_namespace(Some("web"), &maps, &bare).unwrap(), there);
        assert_eq!(key_in_namespace(Some("web"), &maps, &there).unwrap(), there);
        assert_eq!(key_in_namespace(Some("web"), &spaces, &bare).unwrap(), bare);
        assert_eq!(key_in_namespace(None, &maps, &bare).unwrap(), bare);
        let error = key_in_namespace(Some("other"), &maps, &there).unwrap_err();
        assert!(matches!(error, Error::OtherNamespace { .. }), "{error}");

        assert_eq!(
            list_namespace(Some("web"), &maps, None).unwrap(),
            Some("web")
        );
        assert_eq!(list_namespace(Some("web"), &spaces, None).unwrap(), None);
        assert!(list_namespace(Some("web"), &maps, Some("other")).is_err());

        let map = ConfigMap::default();
        let placed = object_in_namespace(Some("web"), &maps, &map).unwrap();
        assert_eq!(placed.metadata.namespace.as_deref(), Some("web"));
    }
}
