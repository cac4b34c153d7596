//! Words: one object as it is held: what routing needs, and its body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use parking_lot::Mutex;
use steersman_api::{Head, Malformed, RawObject};
use steersman_object::{Labels, Object, ObjectKey, ResourceVersion, Uid};

use crate::body::{Body, DecodeResult, Extent};
use crate::intern::Interner;
use crate::pack::{Evictable, PackContext};

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

/// What stays in memory of an object whatever becomes of its body, so each byte counts (STORE-8).
struct Inner {
    key: ObjectKey,
    uid: Uid,
    version: ResourceVersion,
    generation: Generation,
    labels: Arc<Labels>,
    owners_and_finalizers: Arc<OwnersAndFinalizers>,
    deleting: bool,
    body: Body,
}

/// A generation, or none, in eight bytes.
#[derive(Clone, Copy)]
struct Generation(i64);

/// What holds an object: its owners, and its finalizers.
#[derive(Debug, PartialEq)]
struct OwnersAndFinalizers {
    owners: Box<[OwnerReference]>,
    finalizers: Box<[String]>,
}

/// What objects of one informer have in common (POOL-1).
#[derive(Debug, Default)]
pub(crate) struct Interners {
    labels: Mutex<Interner<Labels>>,
    owners_and_finalizers: Mutex<Interner<OwnersAndFinalizers>>,
}

static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();

impl<K: Object> Entry<K> {
    /// The entry of an object.
    #[must_use]
    pub fn new(object: impl Into<Arc<K>>) -> Self {
        let object = object.into();
        let head = Head::of_meta(object.meta());
        Self::of_parts(head, Body::of(&object), None, &Interners::default())
    }

    /// The whole object. It may have to be unpacked and decoded, which takes some tens of microseconds.
    ///
    /// # Panics
    ///
    /// Where `K` reads the same JSON once and then not again.
    #[must_use]
    #[expect(clippy::expect_used, reason = "proven below")]
    pub fn object(&self) -> Arc<K> {
        let decoded = self.inner.decoded();
        // An entry is given out as a `K` only after its JSON decoded as one (VIEW-1), and that is what
        // it is packed of (PACK-1).
        decoded.expect("an entry of a type has decoded as it, and does so again")
    }

    /// As [`body`](Self::body), for those who go over many objects once: it keeps none of them at hand.
    #[expect(clippy::expect_used, reason = "as of `body`")]
    pub(crate) fn decode_once(&self) -> Arc<K> {
        let decoded = self.inner.body.decode_once();
        decoded.expect("an entry of a type has decoded as it, and does so again")
    }

    /// The object's annotations. They may have to be decoded.
    #[must_use]
    pub fn annotations(&self) -> Cow<'_, BTreeMap<String, String>> {
        match &self.object().meta().annotations {
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
    pub fn uid(&self) -> &Uid {
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
        self.inner.generation.get()
    }

    /// Whether deletion was requested and finalizers still hold the object.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.inner.deleting
    }

    /// The object's labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.inner.labels
    }

    /// Who owns the object.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.inner.owners_and_finalizers.owners
    }

    /// The object's finalizers.
    #[must_use]
    pub fn finalizers(&self) -> &[String] {
        &self.inner.owners_and_finalizers.finalizers
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

    /// Whether both are one entry in memory: nothing arrived for the object between the two.
    pub(crate) fn is_identical_to(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The same entry, looked at as another type: the body has to decode as it (VIEW-1).
    pub(crate) fn cast<T>(&self) -> Entry<T> {
        Entry {
            inner: Arc::clone(&self.inner),
            of: PhantomData,
        }
    }

    fn of_parts(head: Head, body: Body, before: Option<&Self>, interners: &Interners) -> Self {
        let inner = Inner {
            key: match before {
                Some(before) if *before.key() == head.key => before.key().clone(),
                _ => head.key,
            },
            uid: Uid::new(&head.uid),
            version: head.version,
            generation: Generation::new(head.generation),
            labels: interners.labels.lock().share((&head.labels).into()),
            owners_and_finalizers: interners.owners_and_finalizers.lock().share(
                OwnersAndFinalizers {
                    owners: head.owners.into(),
                    finalizers: head.finalizers.into(),
                },
            ),
            deleting: head.deleting,
            body,
        };
        Self {
            inner: Arc::new(inner),
            of: PhantomData,
        }
    }
}

impl RawEntry {
    /// The entry of an object that arrived. What it has in common with others, and the key with what was
    /// known `before`, takes no room a second time.
    pub(crate) fn ingest(
        object: RawObject,
        extent: Extent,
        context: &Arc<PackContext>,
        before: Option<&Self>,
        interners: &Interners,
    ) -> Self {
        let (head, json) = object.into_parts();
        Self::of_parts(head, Body::new(json, extent, context), before, interners)
    }

    /// The object as a `K`, where it is at hand: a read that costs next to nothing.
    pub(crate) fn cached<K: Object>(&self) -> Option<DecodeResult<K>> {
        self.inner.body.cached()
    }

    /// The object as a `K`, which may have to be unpacked and decoded: not to be asked for under a lock
    /// that others wait for.
    pub(crate) fn decoded<K: Object>(&self) -> DecodeResult<K> {
        self.inner.decoded()
    }

    /// The object as a `K`, for those who judge it as it arrives, or all there are: this is no read.
    pub(crate) fn decode_if_room<K: Object>(&self) -> DecodeResult<K> {
        self.inner.body.decode_if_room(|| self.inner.holder())
    }

    /// Packs what came; says whether there is something to learn of it.
    pub(crate) fn pack(&self) -> bool {
        self.inner.body.pack(|| self.inner.holder())
    }

    /// Whether the object decodes as a `K`.
    pub(crate) fn check<K: Object>(&self) -> Result<(), Arc<str>> {
        self.inner.body.check::<K>(|| self.inner.holder())
    }

    /// Whether what arrived is this object at this version.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        self.version().is_exact()
            && *self.version() == head.version
            && *self.uid() == *head.uid
            && *self.key() == head.key
    }

    /// What is told of it where nobody can read it as what is asked for.
    pub(crate) fn malformed(&self, problem: &str) -> Malformed {
        Malformed::new(
            self.key().clone(),
            self.uid().to_string(),
            self.version().clone(),
            problem,
        )
    }

    pub(crate) fn raw_body(&self) -> &Body {
        &self.inner.body
    }
}

// ===== impl Generation =====

impl Generation {
    /// No server counts to it, and none counts down.
    const NONE: i64 = i64::MIN;

    fn new(generation: Option<i64>) -> Self {
        Self(generation.unwrap_or(Self::NONE))
    }

    fn get(self) -> Option<i64> {
        Some(self.0).filter(|generation| *generation != Self::NONE)
    }
}

// ===== impl Ties =====

impl Eq for OwnersAndFinalizers {}

/// Owners are told apart by their uids.
impl Hash for OwnersAndFinalizers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.finalizers.hash(state);
        for owner in &self.owners {
            owner.uid.hash(state);
        }
    }
}

// ===== impl Pools =====

impl Interners {
    /// Lets go of what nobody has any more, of so many objects.
    pub(crate) fn sweep(&self, objects: usize) {
        self.labels.lock().sweep(objects);
        self.owners_and_finalizers.lock().sweep(objects);
    }
}

// ===== impl Inner =====

impl Inner {
    fn decoded<K: Object>(self: &Arc<Self>) -> DecodeResult<K> {
        self.body.decoded(|| self.holder())
    }

    fn holder(self: &Arc<Self>) -> Weak<dyn Evictable> {
        Arc::downgrade(self) as _
    }
}

/// What is evicted of an entry is what its body holds decoded.
impl Evictable for Inner {
    fn take_visited(&self) -> bool {
        self.body.take_visited()
    }

    fn evicted_at(&self) -> &AtomicU32 {
        self.body.evicted_at()
    }

    fn evict(&self) {
        self.body.evict();
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
