//! Words: objects of a list that are decoded for the caller and not cached.

use std::marker::PhantomData;
use std::sync::Arc;

use steersman_api::Malformed;
use steersman_object::{Object, ObjectKey, ResourceVersion};

use crate::entry::{Entry, RawEntry};

/// The objects that a query selects, each to be read once as `K`: see
/// [`UntypedInformer::list_uncached`](crate::UntypedInformer::list_uncached).
#[derive(Debug)]
#[non_exhaustive]
pub struct UncachedList<K> {
    /// The objects, ordered by key.
    pub objects: Vec<UncachedObject<K>>,
    /// The resource version of the list: the informer had applied all events, bookmarks and lists up to it.
    pub version: ResourceVersion,
    /// The first object in the query's namespace of which no version decodes; `None` if there is none.
    pub unreadable: Option<Malformed>,
}

/// An object of an [`UncachedList`], decoded on demand.
#[derive(derive_more::Debug)]
#[debug("{entry:?}")]
pub struct UncachedObject<K> {
    entry: RawEntry,
    of: PhantomData<fn() -> K>,
}

impl<K> UncachedObject<K> {
    pub(crate) fn new(entry: &RawEntry) -> Self {
        Self {
            entry: entry.clone(),
            of: PhantomData,
        }
    }

    /// Returns the object's namespace and name.
    pub fn key(&self) -> &ObjectKey {
        self.entry.key()
    }
}

impl<K: Object> UncachedObject<K> {
    /// Returns the object: shared if it is cached as a `K`, or decoded for the caller alone (VIEW-5).
    ///
    /// # Errors
    ///
    /// Returns the object's identity and the decode error if it does not decode as a `K`.
    pub fn read(&self) -> Result<Arc<K>, Malformed> {
        let read = self.entry.raw_body().decode_once();
        read.map_err(|problem| self.entry.malformed(&problem))
    }
}

impl<K> From<Entry<K>> for UncachedObject<K> {
    fn from(entry: Entry<K>) -> Self {
        Self::new(&entry.cast())
    }
}
