//! Machine: the difference between the entries that a new view has processed and those of the store.

use std::mem::take;

use crate::entry::RawEntry;

/// The entries that a new view or index has processed, ordered by key.
#[derive(Debug, Default)]
pub(crate) struct KnownEntries {
    entries: Vec<RawEntry>,
}

/// The difference between the processed entries and those of the store.
#[derive(Debug, Default)]
pub(crate) struct EntryDiff {
    /// Processed entries that left the store. A replaced entry is not listed here: its replacement is in `new`.
    pub(crate) gone: Vec<RawEntry>,
    pub(crate) new: Vec<RawEntry>,
}

impl KnownEntries {
    /// Takes over the store's entries, ordered by key. Returns the difference, which the caller has to process.
    pub(crate) fn update<'a>(&mut self, now: impl Iterator<Item = &'a RawEntry>) -> EntryDiff {
        let mut before = take(&mut self.entries).into_iter().peekable();
        let mut diff = EntryDiff::default();
        for entry in now {
            // Most entries are unchanged, and identical ones need no comparison of keys.
            if let Some(known) = before.next_if(|known| known.is_identical_to(entry)) {
                self.entries.push(known);
                continue;
            }
            while let Some(gone) = before.next_if(|known| known.key() < entry.key()) {
                diff.gone.push(gone);
            }
            match before.next_if(|known| known.key() == entry.key()) {
                Some(known) if known.is_identical_to(entry) => self.entries.push(known),
                _ => {
                    diff.new.push(entry.clone());
                    self.entries.push(entry.clone());
                }
            }
        }
        diff.gone.extend(before);
        diff
    }
}

impl EntryDiff {
    pub(crate) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.new.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::entry::Entry;

    fn entry(name: &str) -> RawEntry {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        Entry::new(map).cast()
    }

    fn names(entries: &[RawEntry]) -> String {
        let names: Vec<&str> = entries.iter().map(|entry| entry.key().name()).collect();
        names.join(" ")
    }

    // VIEW-7
    #[test]
    fn view_7_each_change_of_the_store_is_in_one_difference() {
        let mut store: BTreeMap<&str, RawEntry> = BTreeMap::new();
        let mut known = KnownEntries::default();
        let steps = [
            // The names that are put and removed, and the names in the expected difference: `gone` and `new`.
            ("b d f", "", "", "b d f"),
            ("", "", "", ""),
            // Changes at both ends and in the middle.
            ("a c d g", "f", "f", "a c d g"),
            ("b", "a g", "a g", "b"),
            ("", "b c d", "b c d", ""),
            ("c", "", "", "c"),
        ];
        for (put, removed, gone, new) in steps {
            for name in put.split_whitespace() {
                store.insert(name, entry(name));
            }
            for name in removed.split_whitespace() {
                store.remove(name);
            }
            let diff = known.update(store.values());
            assert_eq!(
                (names(&diff.gone), names(&diff.new)),
                (gone.into(), new.into())
            );
            assert_eq!(diff.is_empty(), gone.is_empty() && new.is_empty());
        }
    }
}
