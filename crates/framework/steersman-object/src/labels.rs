//! Words: the labels of an object in a compact form.

use std::collections::BTreeMap;
use std::fmt;

/// The labels of an object, in the order of their keys.
///
/// Immutable, and stored in one allocation, because a cache holds the labels of many objects.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// All keys and values in turn. The character before each key or value encodes its length in bytes.
    text: Box<str>,
}

/// The first surrogate: the code points from here to 0xdfff are not characters, so the length encoding skips them.
const SURROGATES: u32 = 0xd800;
const NO_CHARACTERS: u32 = 0x800;

impl Labels {
    /// Returns the value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.iter().find(|(own, _)| *own == key);
        found.map(|(_, value)| value)
    }

    /// Returns the labels and their values, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.text;
        std::iter::from_fn(move || {
            let (key, more) = first(rest)?;
            let (value, more) = first(more)?;
            rest = more;
            Some((key, value))
        })
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the labels as a map, as in an object's metadata.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let labels = self.iter().map(|(key, value)| (key.into(), value.into()));
        labels.collect()
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        let parts = || labels.iter().flat_map(|(key, value)| [key, value]);
        let length = parts().map(|part| part.len() + sign(part).len_utf8());
        let mut text = String::with_capacity(length.sum());
        for part in parts() {
            text.push(sign(part));
            text.push_str(part);
        }
        Self { text: text.into() }
    }
}

/// Returns the character that encodes the length of a key or value. The largest length is about a million bytes, and
/// servers permit a few hundred.
fn sign(part: &str) -> char {
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    let skipped = if length < SURROGATES {
        0
    } else {
        NO_CHARACTERS
    };
    char::from_u32(length.saturating_add(skipped)).unwrap_or(char::MAX)
}

/// Splits off the first key or value of a text.
fn first(text: &str) -> Option<(&str, &str)> {
    let mut characters = text.chars();
    let sign = u32::from(characters.next()?);
    let skipped = if sign < SURROGATES { 0 } else { NO_CHARACTERS };
    // A length beyond the limit stands for the rest of the text. All other lengths end at a character boundary.
    let rest = characters.as_str();
    let length = usize::try_from(sign - skipped).unwrap_or(usize::MAX);
    rest.split_at_checked(length).or(Some((rest, "")))
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
        fn labels_convert_back_to_their_map(
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
    #[test]
    fn labels_of_any_length_are_kept() {
        for length in [0, 127, 128, 0xd7ff, 0xd800, 0xdfff, 0xe000, 0x1_2345] {
            let map = BTreeMap::from([("ä".repeat(length / 2), "b".repeat(length))]);
            assert_eq!(Labels::from(&map).to_map(), map);
        }
    }
}
