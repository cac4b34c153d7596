//! Machine: collects a whole list, from pages or from the beginning of a streaming list.

use std::collections::HashMap;

use steersman_api::Decoded;
use steersman_object::ObjectKey;

use crate::delta::Item;

/// The items of a list that is not complete yet, each key once, the newest of it.
#[derive(Debug)]
pub(crate) struct Gathered<K> {
    items: Vec<Option<Item<K>>>,
    places: HashMap<ObjectKey, usize>,
}

impl<K> Default for Gathered<K> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<K> Gathered<K> {
    pub(crate) fn put(&mut self, item: Item<K>) {
        let key = key_of(&item).clone();
        let place = *self.places.entry(key).or_insert(self.items.len());
        match self.items.get_mut(place) {
            Some(slot) => *slot = Some(item),
            None => self.items.push(Some(item)),
        }
    }

    pub(crate) fn remove(&mut self, item: &Item<K>) {
        if let Some(place) = self.places.remove(key_of(item)) {
            self.items[place] = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes what was gathered, in the order of arrival.
    pub(crate) fn take(&mut self) -> Vec<Item<K>> {
        self.places.clear();
        std::mem::take(&mut self.items)
            .into_iter()
            .flatten()
            .collect()
    }
}

fn key_of<K>(item: &Item<K>) -> &ObjectKey {
    match item {
        Decoded::Good(entry) => entry.key(),
        Decoded::Malformed(malformed) => &malformed.key,
    }
}
