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

    /// Takes what was gathered, in the order of arrival.
    pub(crate) fn take(&mut self) -> Vec<Arrived> {
        self.places.clear();
        std::mem::take(&mut self.items)
            .into_iter()
            .flatten()
            .collect()
    }
}

fn key_of(item: &Item) -> &ObjectKey {
    match item {
        Decoded::Good(entry) => entry.key(),
        Decoded::Malformed(malformed) => &malformed.key,
    }
}
