//! Words: one object as it is held: what routing needs, and its body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use steersman_object::{Object, ObjectKey, ResourceVersion};

/// One object as a store and its events hold it.
///
/// Shared and immutable (`STORE-2`): cloning an entry copies no object. How the body is held is
/// hidden behind [`body`](Self::body); key, uid, version, labels, owners and finalizers are always
/// at hand.
pub struct Entry<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    key: Arc<ObjectKey>,
    version: ResourceVersion,
    body: Arc<K>,
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

impl<K: Object> Entry<K> {
    /// The entry of an object.
    #[must_use]
    pub fn new(object: impl Into<Arc<K>>) -> Self {
        let body = object.into();
        Self {
            inner: Arc::new(Inner {
                key: Arc::new(body.key()),
                version: body.stored_version(),
                body,
            }),
        }
    }

    /// The object's uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.inner.body.uid_str()
    }

    /// The object's generation; kinds without one have none.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.inner.body.meta().generation
    }

    /// Whether deletion was requested and finalizers still hold the object.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.inner.body.is_being_deleted()
    }

    /// The object's labels.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        let labels = self.inner.body.meta().labels.as_ref();
        labels.unwrap_or(&NO_LABELS)
    }

    /// The object's annotations. They may have to be decoded.
    #[must_use]
    pub fn annotations(&self) -> Cow<'_, BTreeMap<String, String>> {
        let annotations = self.inner.body.meta().annotations.as_ref();
        Cow::Borrowed(annotations.unwrap_or(&NO_LABELS))
    }

    /// Who owns the object.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerReference] {
        let owners = self.inner.body.meta().owner_references.as_deref();
        owners.unwrap_or_default()
    }

    /// The object's finalizers.
    #[must_use]
    pub fn finalizers(&self) -> &[String] {
        let finalizers = self.inner.body.meta().finalizers.as_deref();
        finalizers.unwrap_or_default()
    }

    /// Whether both are the same object at the same version. Without a uid and a version, an
    /// object is the same as none.
    #[must_use]
    pub fn is_same_version_as(&self, other: &Self) -> bool {
        self.version().is_exact() && self.version() == other.version() && self.is_same_as(other)
    }

    /// Whether both are the same object, at whatever version: an object that was deleted and
    /// created again under its name is another one.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.uid() == other.uid() && self.key() == other.key()
    }
}

impl<K> Entry<K> {
    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.inner.key
    }

    /// The object's version.
    #[must_use]
    pub fn version(&self) -> &ResourceVersion {
        &self.inner.version
    }

    /// The whole object. It may have to be decoded.
    #[must_use]
    pub fn body(&self) -> Arc<K> {
        Arc::clone(&self.inner.body)
    }

    pub(crate) fn shared_key(&self) -> Arc<ObjectKey> {
        Arc::clone(&self.inner.key)
    }
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> fmt::Debug for Entry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.version())
    }
}
