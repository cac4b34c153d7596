//! Words: objects that are looked at once, by somebody who goes over them and on.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use steersman_api::Malformed;
use steersman_object::{Object, ObjectKey, ResourceVersion};

use crate::entry::{Entry, RawEntry};

/// What a query selects, to be looked at as `K`s once: see [`Mirror::pass`](crate::Mirror::pass).
#[derive(Debug)]
#[non_exhaustive]
pub struct UncachedList<K> {
    /// The objects, in the order of their keys.
    pub objects: Vec<UncachedObject<K>>,
    /// The version up to which everything the server said had been applied.
    pub version: ResourceVersion,
    /// The first object that is there, may fall under the query as far as its namespace says, and
    /// cannot be read as anything.
    pub unreadable: Option<Malformed>,
}

/// An object that may not have been decoded as a `K` yet.
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

    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.entry.key()
    }
}

impl<K: Object> UncachedObject<K> {
    /// The object: shared where somebody looks at it as a `K`, and otherwise decoded now and for the
    /// caller alone (VIEW-5).
    ///
    /// # Errors
    ///
    /// What is known of it, where it cannot be read as a `K`.
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

impl<K> fmt::Debug for UncachedObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}
