//! Machine: collects a whole list, from pages or from the beginning of a streaming list.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use steersman_object::ObjectKey;

use crate::delta::{Arrived, Item, key_of};
use crate::pieces::Pieces;

/// The items of a list that is not complete yet, each key once, the newest of it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    items: Pieces<Arrived>,
    /// Where the item of a key is.
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl Gathered {
    pub(crate) fn put(&mut self, arrived: Arrived) {
        let Self {
            items,
            places,
            hasher,
        } = self;
        let key = key_of(&arrived.item);
        let is_here = |place: &usize| key_at(items, *place) == Some(key);
        let rehash = |place: &usize| hasher.hash_one(key_at(items, *place));
        match places.entry(hasher.hash_one(Some(key)), is_here, rehash) {
            Entry::Occupied(place) => items.set(*place.get(), Some(arrived)),
            Entry::Vacant(vacant) => {
                vacant.insert(items.next_place());
                items.push(arrived);
            }
        }
    }

    pub(crate) fn remove(&mut self, item: &Item) {
        let Self {
            items,
            places,
            hasher,
        } = self;
        let key = key_of(item);
        let is_here = |place: &usize| key_at(items, *place) == Some(key);
        if let Ok(place) = places.find_entry(hasher.hash_one(Some(key)), is_here) {
            items.set(place.remove().0, None);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes what was gathered, in the order of arrival. Nothing of it stays: the next list may be days
    /// away (STORE-8).
    pub(crate) fn take(&mut self) -> Pieces<Arrived> {
        std::mem::take(self).items
    }
}

fn key_at(items: &Pieces<Arrived>, place: usize) -> Option<&ObjectKey> {
    Some(key_of(&items.get(place)?.item))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_api::Decoded;

    use super::*;
    use crate::entry::Entry;

    fn item(number: usize) -> Item {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{number}"));
        Decoded::Good(Entry::new(map).cast())
    }

    // STORE-8
    #[test]
    fn store_8_what_was_taken_leaves_nothing_behind() {
        let items: Vec<Item> = (0..10_000).map(item).collect();
        let mut gathered = Gathered::default();
        let counted = allocation_counter::measure(|| {
            for item in &items {
                gathered.put(item.clone().into());
            }
            gathered.remove(&items[3]);
            assert_eq!(gathered.take().len(), 9_999);
        });
        assert_eq!(counted.bytes_current, 0);
    }
}
