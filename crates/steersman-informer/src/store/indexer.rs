//! Machine: objects and indexes, changed together, and what each change means to onlookers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_api::{Decoded, Malformed};
use steersman_object::{Object, ObjectKey, ResourceVersion};

use crate::delta::Item;
use crate::entry::Entry;
use crate::event::{Certainty, Event, Origin};
use crate::store::index::{Index, IndexFn, IndexValues, Ordered, within};
use crate::store::replace::{Fate, fate, is_of};

/// The values of one object in every index, in the order of the indexes; `None` where the stored
/// ones stay right.
pub(crate) type Values = Option<Vec<IndexValues>>;

/// A change whose index values were computed before any lock.
#[derive(Debug)]
pub(crate) enum Change<K> {
    Put(Item<K>, Values),
    Removed(Item<K>),
    Advance(ResourceVersion),
    Resync,
}

/// What a change came to.
#[derive(Debug)]
pub(crate) struct Applied<K> {
    /// In the order in which subscribers shall see them.
    pub(crate) events: Vec<Event<K>>,
    /// Objects that do not decode, at versions not seen before.
    pub(crate) malformed: Vec<Malformed>,
}

/// Objects and indexes of one kind (STORE-1).
pub(crate) struct Indexer<K> {
    by_key: HashMap<Arc<ObjectKey>, Entry<K>>,
    ordered: Ordered<K>,
    indexes: Vec<Index<K>>,
    malformed: BTreeMap<ObjectKey, Malformed>,
    version: ResourceVersion,
}

impl<K> Default for Applied<K> {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            malformed: Vec::new(),
        }
    }
}

impl<K> Default for Indexer<K> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            ordered: Ordered::new(),
            indexes: Vec::new(),
            malformed: BTreeMap::new(),
            version: ResourceVersion::unset(),
        }
    }
}

// ===== reads =====

impl<K> Indexer<K> {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Entry<K>> {
        self.by_key.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Entries of a namespace or of all, in the order of their keys.
    pub(crate) fn entries<'a>(
        &'a self,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Entry<K>> {
        within(&self.ordered, namespace)
    }

    /// Entries that have a value in an index; `None` where there is no such index.
    pub(crate) fn indexed<'a>(
        &'a self,
        name: &str,
        value: &str,
        namespace: Option<&'a str>,
    ) -> Option<impl Iterator<Item = &'a Entry<K>>> {
        let index = self.indexes.iter().find(|index| index.name() == name)?;
        let found = index.get(value).map(|entries| within(entries, namespace));
        Some(found.into_iter().flatten())
    }

    pub(crate) fn index_names(&self) -> Vec<String> {
        let names = self.indexes.iter().map(|index| index.name().to_owned());
        names.collect()
    }

    pub(crate) fn index_functions(&self) -> Vec<IndexFn<K>> {
        self.indexes.iter().map(Index::function).collect()
    }

    pub(crate) fn malformed(&self) -> &BTreeMap<ObjectKey, Malformed> {
        &self.malformed
    }

    /// The version up to which everything the server said has been applied.
    pub(crate) fn version(&self) -> &ResourceVersion {
        &self.version
    }
}

// ===== changes =====

impl<K: Object> Indexer<K> {
    /// Adds an index, filled with what is there. Says whether the name was free.
    pub(crate) fn add_index(&mut self, index: Index<K>) {
        self.indexes.push(index);
    }

    /// An index of `name` with these entries filed in it, to be added.
    pub(crate) fn filled_index(
        name: &str,
        function: IndexFn<K>,
        entries: &[(Entry<K>, IndexValues)],
    ) -> Index<K> {
        let mut index = Index::new(name, function);
        for (entry, values) in entries {
            index.put(entry, values);
        }
        index
    }

    /// Applies one change.
    pub(crate) fn apply(&mut self, change: Change<K>, applied: &mut Applied<K>) {
        match change {
            Change::Put(Decoded::Good(entry), values) => {
                self.advance(entry.version());
                self.put(&entry, values, applied);
            }
            Change::Put(Decoded::Malformed(malformed), _) => {
                self.advance(&malformed.version);
                self.set_aside(malformed, applied);
            }
            Change::Removed(Decoded::Good(last)) => {
                self.advance(last.version());
                self.removed(&last, applied);
            }
            Change::Removed(Decoded::Malformed(malformed)) => {
                self.advance(&malformed.version);
                self.malformed.remove(&malformed.key);
                if let Some(stored) = self.take(&malformed.key) {
                    let certainty = Certainty::FinalStateUnknown;
                    applied.events.push(Event::deleted(stored, certainty));
                }
            }
            Change::Advance(version) => self.advance(&version),
            Change::Resync => {
                let entries = self.ordered.values();
                let repeat = |e: &Entry<K>| Event::updated(e.clone(), e.clone(), Origin::Resync);
                applied.events.extend(entries.map(repeat));
            }
        }
    }

    /// Builds what a relist makes of this, beside it: deletes first, then the rest in the order of
    /// the list. Each key comes once.
    pub(crate) fn replaced(
        &self,
        items: Vec<(Item<K>, Values)>,
        version: ResourceVersion,
        origin: Origin,
    ) -> (Self, Applied<K>) {
        let mut next = Self {
            by_key: HashMap::with_capacity(items.len()),
            ordered: Ordered::new(),
            indexes: self.indexes.iter().map(Index::emptied).collect(),
            malformed: BTreeMap::new(),
            version,
        };
        let mut applied = Applied::default();
        let mut changes = Vec::new();
        for (item, values) in items {
            let stored = match &item {
                Decoded::Good(entry) => self.get(entry.key()),
                Decoded::Malformed(malformed) => self.get(&malformed.key),
            };
            let unknown = Certainty::FinalStateUnknown;
            match fate(stored, Some(&item)) {
                Fate::Appeared(new) => {
                    next.insert(&new, values.unwrap_or_default());
                    changes.push(Event::created(new, origin));
                }
                Fate::Same(old) | Fate::Kept(old) => {
                    next.insert(&old, self.values_of(old.key()));
                }
                Fate::Changed { old, new } => {
                    next.insert(&new, values.unwrap_or_default());
                    changes.push(Event::updated(old, new, Origin::Live));
                }
                // STORE-4
                Fate::Recreated { old, new } => {
                    next.insert(&new, values.unwrap_or_default());
                    applied.events.push(Event::deleted(old, unknown));
                    changes.push(Event::created(new, Origin::Live));
                }
                Fate::Gone(old) => applied.events.push(Event::deleted(old, unknown)),
                Fate::Nothing => {}
            }
            if let Decoded::Malformed(malformed) = item {
                if self.malformed.get(&malformed.key) != Some(&malformed) {
                    applied.malformed.push(malformed.clone());
                }
                next.malformed.insert(malformed.key.clone(), malformed);
            }
        }
        // STORE-3: what the relist does not name is gone; of an object that does not decode, what
        // happened to the good one under its name was decided above.
        for old in self.ordered.values() {
            let named =
                next.by_key.contains_key(old.key()) || next.malformed.contains_key(old.key());
            if !named {
                let unknown = Certainty::FinalStateUnknown;
                applied.events.push(Event::deleted(old.clone(), unknown));
            }
        }
        applied.events.append(&mut changes);
        (next, applied)
    }

    fn put(&mut self, entry: &Entry<K>, values: Values, applied: &mut Applied<K>) {
        // A good version heals.
        self.malformed.remove(entry.key());
        let stored = self.get(entry.key()).cloned();
        let values = match (&stored, values) {
            (_, Some(values)) => values,
            (Some(old), None) if entry.is_same_version_as(old) => return,
            (_, None) => Vec::new(),
        };
        match fate(stored.as_ref(), Some(&Decoded::Good(entry.clone()))) {
            Fate::Same(_) => return,
            Fate::Changed { old, new } => {
                applied.events.push(Event::updated(old, new, Origin::Live));
            }
            Fate::Recreated { old, new } => {
                let unknown = Certainty::FinalStateUnknown;
                applied.events.push(Event::deleted(old, unknown));
                applied.events.push(Event::created(new, Origin::Live));
            }
            Fate::Appeared(new) => applied.events.push(Event::created(new, Origin::Live)),
            Fate::Kept(_) | Fate::Gone(_) | Fate::Nothing => {}
        }
        self.insert(entry, values);
    }

    /// Keeps a malformed object aside. A good version of the same object stays readable; one of
    /// another object under the name is gone.
    fn set_aside(&mut self, malformed: Malformed, applied: &mut Applied<K>) {
        let stored = self.get(&malformed.key);
        if stored.is_some_and(|stored| !is_of(&malformed, stored))
            && let Some(old) = self.take(&malformed.key)
        {
            let unknown = Certainty::FinalStateUnknown;
            applied.events.push(Event::deleted(old, unknown));
        }
        if self.malformed.get(&malformed.key) != Some(&malformed) {
            applied.malformed.push(malformed.clone());
        }
        self.malformed.insert(malformed.key.clone(), malformed);
    }

    fn removed(&mut self, last: &Entry<K>, applied: &mut Applied<K>) {
        self.malformed.remove(last.key());
        if let Some(stored) = self.take(last.key()) {
            let event = if stored.uid() == last.uid() {
                Event::deleted(last.clone(), Certainty::Observed)
            } else {
                Event::deleted(stored, Certainty::FinalStateUnknown)
            };
            applied.events.push(event);
        }
    }

    fn insert(&mut self, entry: &Entry<K>, values: Vec<IndexValues>) {
        let none = IndexValues::default();
        let mut values = values.into_iter();
        for index in &mut self.indexes {
            index.put(entry, values.next().as_ref().unwrap_or(&none));
        }
        let key = entry.shared_key();
        self.ordered.insert(Arc::clone(&key), entry.clone());
        self.by_key.insert(key, entry.clone());
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Entry<K>> {
        for index in &mut self.indexes {
            index.remove(key);
        }
        self.ordered.remove(key);
        self.by_key.remove(key)
    }

    fn values_of(&self, key: &ObjectKey) -> Vec<IndexValues> {
        let of_key = self.indexes.iter().map(|index| index.values_of(key));
        of_key.collect()
    }

    fn advance(&mut self, version: &ResourceVersion) {
        if version.is_exact() && !self.version.is_at_least(version) {
            self.version = version.clone();
        }
    }
}

#[cfg(test)]
mod tests;
