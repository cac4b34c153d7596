//! Words: one object in the store: the metadata that routing needs, and its body.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use parking_lot::Mutex;
use steersman_api::{ApplyDigest, Head, Malformed, Projection, RawObject};
use steersman_object::{Labels, Object, ObjectKey, ResourceVersion, Uid};

use crate::body::{Body, BodyContext, DecodeResult};
use crate::intern::Interner;
use steersman_pack::Evictable;

/// One object of an informer's store or of an event, read as the Rust type `K`.
///
/// Entries are shared and immutable (STORE-2): cloning an entry does not copy the object, and the
/// entries of one object for several types share everything. Key, uid, version, labels, owners and
/// finalizers are always in memory; [`object`](Self::object) may have to unpack and decode.
#[derive(derive_more::Debug)]
#[debug("{}@{}", self.key(), self.version())]
pub struct Entry<K> {
    inner: Arc<ResidentEntry>,
    of: PhantomData<fn() -> K>,
}

#[derive(Debug)]
pub(crate) enum Untyped {}

pub(crate) type RawEntry = Entry<Untyped>;

/// The part of an entry that stays in memory even if the body is packed (STORE-8).
struct ResidentEntry {
    key: ObjectKey,
    uid: Uid,
    version: ResourceVersion,
    generation: Generation,
    labels: Arc<Labels>,
    owners_and_finalizers: Arc<OwnersAndFinalizers>,
    annotations_hash: u32,
    deleting: bool,
    /// Digests of this program's server-side applies that would change nothing: the client omits these (CLIENT-12).
    #[expect(clippy::box_collection, reason = "one pointer in place of three words")]
    applies: OnceLock<Box<Vec<ApplyDigest>>>,
    body: Body,
}

/// An optional `metadata.generation` in eight bytes; an `Option<i64>` takes sixteen.
#[derive(Clone, Copy)]
struct Generation(i64);

#[derive(Debug, PartialEq)]
struct OwnersAndFinalizers {
    owners: Box<[OwnerReference]>,
    finalizers: Box<[String]>,
}

/// The pools through which objects of one informer share equal labels, owners and finalizers (POOL-1).
#[derive(Debug, Default)]
pub(crate) struct Interners {
    labels: Mutex<Interner<Labels>>,
    owners_and_finalizers: Mutex<Interner<OwnersAndFinalizers>>,
}

static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();

impl<K: Object> Entry<K> {
    /// Makes an entry of an object that is in no store.
    pub fn new(object: impl Into<Arc<K>>) -> Self {
        let object = object.into();
        let head = Head::of_meta(object.meta());
        Self::of_parts(head, Body::of(&object), None, &Interners::default())
    }

    /// Returns the whole object. Unpacking and decoding it may take tens of microseconds.
    ///
    /// # Panics
    ///
    /// Panics if `K` decoded this JSON before and does not decode it again.
    pub fn object(&self) -> Arc<K> {
        let decoded = self.inner.decoded();
        // An entry has the type `K` only after its JSON decoded as `K` (VIEW-1); unpacking keeps the JSON (PACK-1).
        decoded.expect("the JSON of an entry decoded as its type before")
    }

    /// Returns the whole object without caching the decoded value, for callers that read many objects once.
    pub(crate) fn decode_once(&self) -> Arc<K> {
        let decoded = self.inner.body.decode_once();
        decoded.expect("the JSON of an entry decoded as its type before")
    }

    /// Returns the object's annotations. The object may have to be decoded.
    pub fn annotations(&self) -> Cow<'_, BTreeMap<String, String>> {
        match &self.object().meta().annotations {
            Some(annotations) => Cow::Owned(annotations.clone()),
            None => Cow::Borrowed(&NO_ANNOTATIONS),
        }
    }
}

impl<K> Entry<K> {
    /// Returns the object's namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.inner.key
    }

    /// Returns `metadata.uid`. An object that is deleted and created again under its name has another uid.
    pub fn uid(&self) -> &Uid {
        &self.inner.uid
    }

    /// Returns `metadata.resourceVersion`; unset if the object has none.
    pub fn version(&self) -> &ResourceVersion {
        &self.inner.version
    }

    /// Returns `metadata.generation`; `None` for kinds without one.
    pub fn generation(&self) -> Option<i64> {
        self.inner.generation.get()
    }

    /// Returns whether the object has a deletion timestamp. Such an object exists until its finalizers are removed.
    pub fn is_deleting(&self) -> bool {
        self.inner.deleting
    }

    /// Returns `metadata.labels`, without decoding the object.
    pub fn labels(&self) -> &Labels {
        &self.inner.labels
    }

    /// Returns a hash of the object's annotations, without decoding the object. Different annotations have equal hashes
    /// with a probability of one in four billion.
    pub fn annotations_hash(&self) -> u32 {
        self.inner.annotations_hash
    }

    /// Returns `metadata.ownerReferences`, without decoding the object.
    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.inner.owners_and_finalizers.owners
    }

    /// Returns `metadata.finalizers`, without decoding the object.
    pub fn finalizers(&self) -> &[String] {
        &self.inner.owners_and_finalizers.finalizers
    }

    /// Returns whether both entries are the same version of one object; false if the object has no resource version.
    pub fn is_same_version_as(&self, other: &Self) -> bool {
        self.version().is_exact() && self.version() == other.version() && self.is_same_as(other)
    }

    /// Returns whether both entries are the same version of one object, with equal JSON. A changed definition of a
    /// custom resource, for instance with another conversion, changes the JSON of the objects without a new version.
    pub fn is_unchanged_from(&self, other: &Self) -> bool {
        let has_form_of = || self.inner.body.has_form_of(&other.inner.body);
        self.is_same_version_as(other) && (Arc::ptr_eq(&self.inner, &other.inner) || has_form_of())
    }

    /// Returns whether both entries are of one object, in any version. An object that was deleted and created again
    /// under its name is another object.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.uid() == other.uid() && self.key() == other.key()
    }

    pub(crate) fn is_identical_to(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the same entry, read as a `T`. The body must have decoded as `T` (VIEW-1).
    pub(crate) fn cast<T>(&self) -> Entry<T> {
        Entry {
            inner: Arc::clone(&self.inner),
            of: PhantomData,
        }
    }

    fn of_parts(head: Head, body: Body, before: Option<&Self>, interners: &Interners) -> Self {
        let inner = ResidentEntry {
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
            annotations_hash: head.annotations_hash,
            deleting: head.deleting,
            applies: OnceLock::new(),
            body,
        };
        Self {
            inner: Arc::new(inner),
            of: PhantomData,
        }
    }
}

impl RawEntry {
    /// Makes an entry of an arrived object. The entry shares equal labels, owners and finalizers with other objects,
    /// and its key with `before`, the entry stored under that key.
    pub(crate) fn ingest(
        object: RawObject,
        projection: Projection,
        context: &Arc<BodyContext>,
        before: Option<&Self>,
        interners: &Interners,
    ) -> Self {
        let (conformity, applies) = (object.conformity(), object.applies().to_vec());
        let (head, json) = object.into_parts();
        let body = Body::new(json, conformity, projection, context);
        let entry = Self::of_parts(head, body, before, interners);
        entry.note_applies(applies);
        entry
    }

    /// Stores the digests of server-side applies that would change nothing in this version, if it arrived with any.
    pub(crate) fn note_applies(&self, applies: Vec<ApplyDigest>) {
        if !applies.is_empty() {
            // Setting fails only if the version has digests already: they are the same.
            let _ = self.inner.applies.set(Box::new(applies));
        }
    }

    /// Returns whether a server-side apply with this digest is known to change nothing in the object.
    pub(crate) fn is_applied(&self, apply: &ApplyDigest) -> bool {
        let applies = self.inner.applies.get();
        applies.is_some_and(|applies| applies.contains(apply))
    }

    /// Returns the cached object decoded as a `K`. The call counts as a read and so delays the eviction.
    pub(crate) fn cached<K: Object>(&self) -> Option<DecodeResult<K>> {
        self.inner.body.cached()
    }

    /// Returns the object decoded as a `K`, and caches it if the budget can make room. Decoding takes long, so the
    /// caller must hold no lock.
    pub(crate) fn decoded<K: Object>(&self) -> DecodeResult<K> {
        self.inner.decoded()
    }

    /// Returns the object decoded as a `K`, and caches it if the budget has room. The call does not count as a read: it
    /// is made for objects on their arrival, and for stored objects when an index is added.
    pub(crate) fn decode_if_room<K: Object>(&self) -> DecodeResult<K> {
        self.inner.body.decode_if_room(|| self.inner.holder())
    }

    /// Packs (compresses) the body if necessary. Returns whether a new compression dictionary should be trained.
    pub(crate) fn pack(&self) -> bool {
        self.inner.body.pack(|| self.inner.holder())
    }

    pub(crate) fn check<K: Object>(&self) -> Result<(), Arc<str>> {
        self.inner.body.check::<K>(|| self.inner.holder())
    }

    /// Checks as [`check`](Self::check) does that the object decodes as a `K`, the built-in type of its kind. An object
    /// that arrived in protobuf needs no check (VIEW-8).
    pub(crate) fn check_built_in<K: Object>(&self) -> Result<(), Arc<str>> {
        if self.inner.body.is_of_its_kind() {
            return Ok(());
        }
        self.check::<K>()
    }

    /// Returns whether the metadata `head` has the resource version and the identity of this entry.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        self.version().is_exact()
            && *self.version() == head.version
            && *self.uid() == *head.uid
            && *self.key() == head.key
    }

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

impl Generation {
    /// Stands for "no generation", because generations are positive.
    const NONE: i64 = i64::MIN;

    fn new(generation: Option<i64>) -> Self {
        Self(generation.unwrap_or(Self::NONE))
    }

    fn get(self) -> Option<i64> {
        Some(self.0).filter(|generation| *generation != Self::NONE)
    }
}

impl Eq for OwnersAndFinalizers {}

/// Only the uids of owners are hashed, because a uid identifies its owner.
impl Hash for OwnersAndFinalizers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.finalizers.hash(state);
        for owner in &self.owners {
            owner.uid.hash(state);
        }
    }
}

impl Interners {
    /// Drops shared values that no object uses. `objects` is the number of objects in the store.
    pub(crate) fn sweep(&self, objects: usize) {
        self.labels.lock().sweep(objects);
        self.owners_and_finalizers.lock().sweep(objects);
    }
}

impl ResidentEntry {
    fn decoded<K: Object>(self: &Arc<Self>) -> DecodeResult<K> {
        self.body.decoded(|| self.holder())
    }

    fn holder(self: &Arc<Self>) -> Weak<dyn Evictable> {
        Arc::downgrade(self) as _
    }
}

/// The memory budget evicts entries: an eviction drops the decoded values of the body and keeps the JSON.
impl Evictable for ResidentEntry {
    fn take_visited(&self) -> bool {
        self.body.visited.swap(false, Ordering::Relaxed)
    }

    fn evicted_at(&self) -> &AtomicU32 {
        &self.body.evicted_at
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
