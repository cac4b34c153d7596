//! Machine: the entries that were looked at without a lock, and the difference to the store since then.

use std::mem::take;

use crate::entry::RawEntry;

/// The entries that a new view or a new index was made of, in the order of their keys.
///
/// They are looked at while others change the store (VIEW-7).
#[derive(Debug, Default)]
pub(crate) struct KnownEntries {
    entries: Vec<RawEntry>,
}

/// The difference between the entries that were looked at and those of the store.
#[derive(Debug, Default)]
pub(crate) struct EntryDiff {
    /// Entries that were looked at and are not in the store any more. An entry that was replaced is
    /// not among them: another one of its key is in `new`.
    pub(crate) gone: Vec<RawEntry>,
    /// Entries of the store that were not looked at.
    pub(crate) new: Vec<RawEntry>,
}

impl KnownEntries {
    /// Takes over the entries of the store, and returns what has to be looked at for it. `now` is in the
    /// order of keys.
    pub(crate) fn update<'a>(&mut self, now: impl Iterator<Item = &'a RawEntry>) -> EntryDiff {
        let mut before = take(&mut self.entries).into_iter().peekable();
        let mut diff = EntryDiff::default();
        for entry in now {
            // Most entries are those that were there before: no keys are compared for them.
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
    fn view_7_each_change_since_the_last_look_is_looked_at_once() {
        let mut store: BTreeMap<&str, RawEntry> = BTreeMap::new();
        let mut known = KnownEntries::default();
        let steps = [
            // What is put, what is removed, and what has to be looked at for that.
            ("b d f", "", "", "b d f"),
            ("", "", "", ""),
            // At both ends and between.
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
