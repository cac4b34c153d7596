//! Machine: entries by key, in a hash table and in an ordered list.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::Bound;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use steersman_object::ObjectKey;

use crate::entry::RawEntry;

pub(crate) trait Keyed {
    fn key(&self) -> &ObjectKey;
}

/// A hash table of keyed values.
///
/// The hash is seeded (foldhash), and nothing is listed in the order of the table, so that a user cannot choose names
/// of objects that collide.
#[derive(Clone, Debug)]
pub(crate) struct EntryTable<T> {
    slots: HashTable<T>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ordered(BTreeSet<Placed>);

#[derive(Clone, Debug)]
struct Placed(RawEntry);

impl<T: Keyed> EntryTable<T> {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            slots: HashTable::with_capacity(capacity),
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&T> {
        let hash = self.hasher.hash_one(key);
        self.slots.find(hash, |slot| slot.key() == key)
    }

    pub(crate) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut T> {
        let hash = self.hasher.hash_one(key);
        self.slots.find_mut(hash, |slot| slot.key() == key)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Inserts a value. Returns the previous value of its key.
    pub(crate) fn insert(&mut self, new: T) -> Option<T> {
        let Self { slots, hasher } = self;
        let hash = hasher.hash_one(new.key());
        let same = |slot: &T| slot.key() == new.key();
        match slots.entry(hash, same, |slot| hasher.hash_one(slot.key())) {
            Entry::Occupied(mut there) => Some(std::mem::replace(there.get_mut(), new)),
            Entry::Vacant(vacant) => {
                vacant.insert(new);
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        let found = self.slots.find_entry(hash, |slot| slot.key() == key);
        found.ok().map(|found| found.remove().0)
    }
}

impl<T: Keyed> Default for EntryTable<T> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Ordered {
    pub(crate) fn insert(&mut self, entry: RawEntry) {
        self.0.replace(Placed(entry));
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.0.contains(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RawEntry> {
        self.0.iter().map(|Placed(entry)| entry)
    }

    pub(crate) fn within(&self, namespace: Option<&str>) -> impl Iterator<Item = &RawEntry> {
        // Keys are ordered by namespace first, and an empty name precedes all other names.
        let start = namespace.map(|namespace| ObjectKey::namespaced(namespace, ""));
        let start = start.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let entries = self.0.range::<ObjectKey, _>((start, Bound::Unbounded));
        let entries = entries.map(|Placed(entry)| entry);
        entries.take_while(move |entry| {
            namespace.is_none_or(|namespace| entry.key().namespace() == Some(namespace))
        })
    }
}

/// Building is fastest if the keys are unique and ascend, as those of a list do.
impl FromIterator<RawEntry> for Ordered {
    fn from_iter<I: IntoIterator<Item = RawEntry>>(entries: I) -> Self {
        Self(entries.into_iter().map(Placed).collect())
    }
}

impl Keyed for RawEntry {
    fn key(&self) -> &ObjectKey {
        self.key()
    }
}

impl Borrow<ObjectKey> for Placed {
    fn borrow(&self) -> &ObjectKey {
        self.0.key()
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Placed {}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
