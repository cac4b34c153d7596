//! Words: one object as it is held: what routing needs, and its body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use steersman_api::{Head, RawObject};
use steersman_object::{Object, ObjectKey, ResourceVersion};

use crate::body::{Body, Extent};

/// One object as a store and its events hold it, looked at as a `K`.
///
/// Shared and immutable (`STORE-2`): cloning an entry copies no object, and entries of one object
/// for several types are one and the same. How the body is held is hidden behind
/// [`body`](Self::body); key, uid, version, labels, owners and finalizers are always at hand.
pub struct Entry<K> {
    inner: Arc<Inner>,
    of: PhantomData<fn() -> K>,
}

/// The type of those who do not look at the body.
#[derive(Debug)]
pub(crate) enum Untyped {}

/// An entry as it is held: of no type.
pub(crate) type RawEntry = Entry<Untyped>;

struct Inner {
    key: Arc<ObjectKey>,
    uid: Box<str>,
    version: ResourceVersion,
    generation: Option<i64>,
    deleting: bool,
    labels: Arc<BTreeMap<String, String>>,
    owners: Arc<[OwnerReference]>,
    finalizers: Arc<[String]>,
    body: Body,
}

static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();

impl<K: Object> Entry<K> {
    /// The entry of an object.
    #[must_use]
    pub fn new(object: impl Into<Arc<K>>) -> Self {
        let object = object.into();
        let head = Head::of_meta(object.meta());
        Self::of_parts(head, Body::of(&object), None)
    }

    /// The whole object. It may have to be decoded.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "proven below"
    )]
    pub fn body(&self) -> Arc<K> {
        let decoded = self.inner.body.decoded();
        // An entry is given out as a `K` only after it decoded as one (VIEW-1), and stays so.
        decoded.expect("an entry of a type has decoded as it")
    }

    /// The object's annotations. They may have to be decoded.
    #[must_use]
    pub fn annotations(&self) -> Cow<'_, BTreeMap<String, String>> {
        match &self.body().meta().annotations {
            Some(annotations) => Cow::Owned(annotations.clone()),
            None => Cow::Borrowed(&NO_ANNOTATIONS),
        }
    }
}

impl<K> Entry<K> {
    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.inner.key
    }

    /// The object's uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.inner.uid
    }

    /// The object's version.
    #[must_use]
    pub fn version(&self) -> &ResourceVersion {
        &self.inner.version
    }

    /// The object's generation; kinds without one have none.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.inner.generation
    }

    /// Whether deletion was requested and finalizers still hold the object.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.inner.deleting
    }

    /// The object's labels.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.inner.labels
    }

    /// Who owns the object.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.inner.owners
    }

    /// The object's finalizers.
    #[must_use]
    pub fn finalizers(&self) -> &[String] {
        &self.inner.finalizers
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

    pub(crate) fn shared_key(&self) -> Arc<ObjectKey> {
        Arc::clone(&self.inner.key)
    }

    /// The same entry, looked at as another type: the body has to decode as it (VIEW-1).
    pub(crate) fn cast<T>(&self) -> Entry<T> {
        Entry {
            inner: Arc::clone(&self.inner),
            of: PhantomData,
        }
    }

    /// Puts together what is new with what was known of an earlier version: a label, an owner or
    /// a finalizer that stayed takes no room a second time.
    fn of_parts(head: Head, body: Body, before: Option<&Self>) -> Self {
        let before = before.map(|entry| &*entry.inner);
        let inner = Inner {
            key: match before {
                Some(before) if *before.key == head.key => Arc::clone(&before.key),
                _ => Arc::new(head.key),
            },
            uid: head.uid.into(),
            version: head.version,
            generation: head.generation,
            deleting: head.deleting,
            labels: match before {
                Some(before) if *before.labels == head.labels => Arc::clone(&before.labels),
                _ => Arc::new(head.labels),
            },
            owners: match before {
                Some(before) if *before.owners == *head.owners => Arc::clone(&before.owners),
                _ => head.owners.into(),
            },
            finalizers: match before {
                Some(before) if *before.finalizers == *head.finalizers => {
                    Arc::clone(&before.finalizers)
                }
                _ => head.finalizers.into(),
            },
            body,
        };
        Self {
            inner: Arc::new(inner),
            of: PhantomData,
        }
    }
}

impl RawEntry {
    /// The entry of an object that arrived; `quotes` says whether an error may quote it.
    pub(crate) fn ingest(
        object: RawObject,
        extent: Extent,
        quotes: bool,
        before: Option<&Self>,
    ) -> Self {
        let (head, json) = object.into_parts();
        Self::of_parts(head, Body::new(json, extent, quotes), before)
    }

    /// Whether what arrived is this object at this version.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        self.version().is_exact()
            && *self.version() == head.version
            && self.uid() == head.uid
            && *self.key() == head.key
    }

    pub(crate) fn raw_body(&self) -> &Body {
        &self.inner.body
    }
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        self.cast()
    }
}

impl<K> fmt::Debug for Entry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.version())
    }
}
