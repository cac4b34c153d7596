//! Words: the labels of an object, held in as little room as they are read in.

use std::collections::BTreeMap;
use std::fmt;

/// The labels of an object, in the order of their keys.
///
/// Immutable, and two allocations however many there are: most objects have labels, and a cache holds
/// many objects.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// Key, value, key, value, without anything between.
    text: Box<str>,
    /// Where each of them ends.
    ends: Box<[u32]>,
}

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.iter().find(|(own, _)| *own == key);
        found.map(|(_, value)| value)
    }

    /// Each label and its value, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        let mut texts = self.ends.iter().map(move |end| {
            let end = *end as usize;
            let text = self.text.get(start..end).unwrap_or_default();
            start = end;
            text
        });
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// As objects spell them.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let labels = self.iter().map(|(key, value)| (key.into(), value.into()));
        labels.collect()
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        let length = labels.iter().map(|(key, value)| key.len() + value.len());
        let mut text = String::with_capacity(length.sum());
        let mut ends = Vec::with_capacity(2 * labels.len());
        for part in labels.iter().flat_map(|(key, value)| [key, value]) {
            text.push_str(part);
            // No request is as long as this could count.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_are_the_map_they_were_made_of(
            map in prop::collection::btree_map("[a-c]{0,2}", "[a-cä]{0,2}", 0..5),
            other in prop::collection::btree_map("[a-c]{0,2}", "[a-cä]{0,2}", 0..5),
        ) {
            let labels = Labels::from(&map);
            prop_assert_eq!(&labels.to_map(), &map);
            prop_assert_eq!((labels.len(), labels.is_empty()), (map.len(), map.is_empty()));
            prop_assert_eq!(labels == Labels::from(&other), map == other);
            for key in map.keys().chain(other.keys()) {
                prop_assert_eq!(labels.get(key), map.get(key).map(String::as_str));
            }
        }
    }
}
