//! Machine: collects a whole list, from pages or from the beginning of a streaming list.

use std::collections::HashMap;

use steersman_api::Decoded;
use steersman_object::ObjectKey;

use crate::delta::{Arrived, Item};

/// The items of a list that is not complete yet, each key once, the newest of it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    items: Vec<Option<Arrived>>,
    places: HashMap<ObjectKey, usize>,
}

impl Gathered {
    pub(crate) fn put(&mut self, arrived: Arrived) {
        let key = key_of(&arrived.item).clone();
        let place = *self.places.entry(key).or_insert(self.items.len());
        match self.items.get_mut(place) {
            Some(slot) => *slot = Some(arrived),
            None => self.items.push(Some(arrived)),
        }
    }

    pub(crate) fn remove(&mut self, item: &Item) {
        if let Some(place) = self.places.remove(key_of(item)) {
            self.items[place] = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes what was gathered, in the order of arrival. Nothing of it stays: the next list may be days
    /// away (STORE-8).
    pub(crate) fn take(&mut self) -> Vec<Arrived> {
        let Self { items, places: _ } = std::mem::take(self);
        items.into_iter().flatten().collect()
    }
}

fn key_of(item: &Item) -> &ObjectKey {
    match item {
        Decoded::Good(entry) => entry.key(),
        Decoded::Malformed(malformed) => &malformed.key,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

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
