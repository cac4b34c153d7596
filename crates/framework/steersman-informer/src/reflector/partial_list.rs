//! Machine: collects the objects of a list from its pages, or from the start of a streaming list.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use steersman_object::ObjectKey;

use crate::chunked_vec::ChunkedVec;
use crate::delta::{Arrived, DeltaItem, key_of};

/// The objects of an incomplete list, each key with its newest version.
#[derive(Debug, Default)]
pub(crate) struct PartialList {
    items: ChunkedVec<Arrived>,
    indexes: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl PartialList {
    pub(crate) fn put(&mut self, arrived: Arrived) {
        let Self {
            items,
            indexes,
            hasher,
        } = self;
        let key = key_of(&arrived.item);
        let is_here = |index: &usize| key_at(items, *index) == Some(key);
        let rehash = |index: &usize| hasher.hash_one(key_at(items, *index));
        match indexes.entry(hasher.hash_one(Some(key)), is_here, rehash) {
            Entry::Occupied(index) => items.set(*index.get(), Some(arrived)),
            Entry::Vacant(vacant) => {
                vacant.insert(items.next_index());
                items.push(arrived);
            }
        }
    }

    pub(crate) fn remove(&mut self, item: &DeltaItem) {
        let Self {
            items,
            indexes,
            hasher,
        } = self;
        let key = key_of(item);
        let is_here = |index: &usize| key_at(items, *index) == Some(key);
        if let Ok(index) = indexes.find_entry(hasher.hash_one(Some(key)), is_here) {
            items.set(index.remove().0, None);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the items in order of arrival and frees all memory, because the next list may be days away (STORE-8).
    pub(crate) fn take(&mut self) -> ChunkedVec<Arrived> {
        std::mem::take(self).items
    }
}

fn key_at(items: &ChunkedVec<Arrived>, index: usize) -> Option<&ObjectKey> {
    Some(key_of(&items.get(index)?.item))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_api::Decoded;

    use super::*;
    use crate::entry::Entry;

    fn item(number: usize) -> DeltaItem {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{number}"));
        Decoded::Good(Entry::new(map).cast())
    }

    // STORE-8
    #[test]
    fn store_8_a_taken_list_leaves_no_memory_allocated() {
        let items: Vec<DeltaItem> = (0..10_000).map(item).collect();
        let mut partial_list = PartialList::default();
        let counted = allocation_counter::measure(|| {
            for item in &items {
                partial_list.put(item.clone().into());
            }
            partial_list.remove(&items[3]);
            assert_eq!(partial_list.take().len(), 9_999);
        });
        assert_eq!(counted.bytes_current, 0);
    }
}
