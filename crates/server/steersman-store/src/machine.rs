//! Machine: `Store`, the multi-version store with one revision counter for all kinds.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use steersman_schema::resource::StorageKey;

use super::after_writes::{AfterWrites, WAITING};
use super::change_type::ChangeType;
use super::decoded_window::{DecodedObject, DecodedWindow, UNFOLDED};
use super::draft::Draft;
use super::object::{Stored, object_key};

mod folding;

/// A past revision: one change of one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The revision that the change made.
    pub revision: u64,
    /// The object before the change, if it existed.
    pub old: Option<Arc<Stored>>,
    /// The object after the change; for a deletion its last state, with the revision of the deletion as its version.
    pub new: Arc<Stored>,
    /// Whether the revision deleted the object, so that `new` is its last state.
    pub deleted: bool,
}

/// The reason why a past revision cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The revision was compacted.
    Compacted,
    /// The revision does not exist yet.
    Future {
        /// The newest revision.
        current: u64,
    },
}

/// The objects of all kinds, and the log of past revisions.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    compacted: u64,
    retained: u64,
    retained_bytes: u64,
    /// The newest changes, in order. Some are not serialised yet, so `held_bytes` does not include them.
    uncounted: VecDeque<Uncounted>,
    /// For each retained revision before those in `uncounted`: the bytes of JSON that dropping this revision frees.
    held: VecDeque<u64>,
    held_bytes: u64,
    tables: HashMap<StorageKey, Table>,
    window: DecodedWindow,
    after_writes: AfterWrites,
    /// The changes since the last `take_changes`, for the write-ahead log; `None` if changes are not recorded.
    untaken: Option<Vec<(StorageKey, Change)>>,
}

#[derive(Debug)]
struct Uncounted {
    storage: StorageKey,
    key: Arc<str>,
    change: Change,
}

#[derive(Debug, Default)]
struct Table {
    /// The newest objects by [`Stored::key`]. A write of an existing object changes this map, but not `order`.
    objects: HashMap<Arc<str>, Arc<Stored>>,
    /// The keys of `objects`, sorted, because lists are sorted by key (SRV-STORE-5).
    order: BTreeSet<Arc<str>>,
    log: VecDeque<Change>,
    dropped: u64,
}

impl Change {
    /// Returns the bytes of JSON that dropping this change frees: the old object, and for a deletion the last state.
    fn held(&self) -> u64 {
        let old = self.old.as_ref().map_or(0, |old| old.bytes().len());
        let last = self.deleted.then(|| self.new.bytes().len());
        u64::try_from(old + last.unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

impl Store {
    /// Creates an empty store at revision 1 that keeps at most `retained` past revisions (at least 2) with at most
    /// `retained_bytes` of JSON. The newest revision stays, whatever its size is.
    #[must_use]
    pub fn new(retained: usize, retained_bytes: usize) -> Self {
        Self {
            revision: 1,
            compacted: 0,
            retained: u64::try_from(retained.max(2)).unwrap_or(u64::MAX),
            retained_bytes: u64::try_from(retained_bytes).unwrap_or(u64::MAX),
            uncounted: VecDeque::new(),
            held: VecDeque::from([0]),
            held_bytes: 0,
            tables: HashMap::new(),
            window: DecodedWindow::default(),
            after_writes: AfterWrites::default(),
            untaken: None,
        }
    }

    /// Starts to record changes, for [`take_changes`](Self::take_changes) and the write-ahead log.
    pub fn record_changes(&mut self) {
        self.untaken = Some(Vec::new());
    }

    /// Returns and clears the changes since the last call, in the order of revisions; empty if they are not recorded.
    pub fn take_changes(&mut self) -> Vec<(StorageKey, Change)> {
        let untaken = self.untaken.as_mut().map(std::mem::take);
        untaken.unwrap_or_default()
    }

    /// Returns the newest revision, which is the number of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the oldest revision that was not compacted: it can be listed, and a watch can start from it.
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Returns the newest state of an object; `None` if the object does not exist.
    pub fn get(&self, storage: &StorageKey, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        let table = self.tables.get(storage)?;
        table.objects.get(object_key(namespace, name).as_str())
    }

    /// Returns the number of objects of a storage (a resource in a group) that are kept decoded.
    pub fn decoded(&self, storage: &StorageKey) -> usize {
        let all = self.tables.get(storage).into_iter();
        let objects = all.flat_map(|table| table.objects.values());
        objects.filter(|object| object.is_decoded()).count()
    }

    /// Returns the number of objects in a storage (a resource in a group), in all namespaces.
    pub fn count(&self, storage: &StorageKey) -> usize {
        let table = self.tables.get(storage);
        table.map_or(0, |table| table.objects.len())
    }

    /// Returns the newest state of the objects in one namespace, or with `None` in all namespaces, sorted by key.
    pub fn list<'a>(
        &'a self,
        storage: &StorageKey,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        self.tables.get(storage).into_iter().flat_map(move |table| {
            let start = match namespace {
                Some(namespace) => Bound::Included(object_key(namespace, "")),
                None => Bound::Unbounded,
            };
            let start = start.as_ref().map(String::as_str);
            table
                .order
                .range::<str, _>((start, Bound::Unbounded))
                .filter_map(|key| table.objects.get(key))
                .take_while(move |stored| namespace.is_none_or(|one| *stored.namespace == *one))
        })
    }

    /// Returns the objects as they were at `revision`, by undoing later changes from the log in the newest state.
    ///
    /// # Errors
    /// Fails if the revision was compacted or does not exist yet.
    pub fn list_at(
        &self,
        storage: &StorageKey,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, Unreadable> {
        if revision > self.revision {
            let current = self.revision;
            return Err(Unreadable::Future { current });
        }
        if revision < self.compacted {
            return Err(Unreadable::Compacted);
        }
        let mut objects: BTreeMap<String, Arc<Stored>> = self
            .list(storage, namespace)
            .map(|stored| (stored.key(), Arc::clone(stored)))
            .collect();
        if let Some(table) = self.tables.get(storage) {
            let later = table.log.iter().rev();
            for change in later.take_while(|change| change.revision > revision) {
                if namespace.is_some_and(|one| *change.new.namespace != *one) {
                    continue;
                }
                match &change.old {
                    Some(old) => objects.insert(old.key(), Arc::clone(old)),
                    None => objects.remove(&change.new.key()),
                };
            }
        }
        Ok(objects.into_values().collect())
    }

    /// Returns the changes of one storage after `revision`, the oldest first.
    ///
    /// # Errors
    /// Fails if one of these changes was compacted. A revision after which no change of this storage was compacted
    /// stays readable, however old it is (SRV-STORE-4).
    pub fn changes<'a>(
        &'a self,
        storage: &StorageKey,
        after: u64,
    ) -> Result<impl Iterator<Item = &'a Change> + use<'a>, Unreadable> {
        let table = self.tables.get(storage);
        if table.is_some_and(|table| after < table.dropped) {
            return Err(Unreadable::Compacted);
        }
        Ok(table.into_iter().flat_map(move |table| {
            let start = table.log.partition_point(|change| change.revision <= after);
            table.log.range(start..)
        }))
    }

    /// Returns the retained changes of one storage, the newest first.
    pub fn latest_changes(&self, storage: &StorageKey) -> impl Iterator<Item = &Change> {
        let table = self.tables.get(storage);
        table.into_iter().flat_map(|table| table.log.iter().rev())
    }

    /// Creates or replaces an object at the next revision, and returns it (SRV-STORE-1: one revision is one write).
    pub fn put(
        &mut self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
        object: impl Into<Draft>,
    ) -> Arc<Stored> {
        self.revision += 1;
        let revision = self.revision;
        let table = self.tables.entry(storage.clone()).or_default();
        let key = object_key(namespace, name);
        let (made, key, namespace, name) = match table.objects.get_key_value(key.as_str()) {
            Some((key, old)) => (
                ChangeType::Modified,
                Arc::clone(key),
                Arc::clone(&old.namespace),
                Arc::clone(&old.name),
            ),
            None => (ChangeType::Added, key.into(), namespace.into(), name.into()),
        };
        let stored = Stored::made((namespace, name), object.into(), revision, Some(made));
        let stored = Arc::new(stored);
        if made == ChangeType::Added {
            table.order.insert(Arc::clone(&key));
        }
        let old = table.objects.insert(Arc::clone(&key), Arc::clone(&stored));
        // SRV-STORE-7: a past revision is not kept decoded; a reader of the log decodes a copy of its own.
        let change = Change {
            revision,
            old: old.as_ref().map(|old| Arc::new(old.folded())),
            new: Arc::new(stored.folded()),
            deleted: false,
        };
        if let Some(old) = old {
            self.after_writes.add_replaced(old);
        }
        self.after_writes.add_written(&stored);
        self.remember(storage, key, change);
        stored
    }

    /// Returns the work that writes since the last call postponed, to be done once the registry's lock is free.
    pub fn take_after_writes(&mut self) -> AfterWrites {
        self.count_later_reads();
        // The objects that the previous call returned are usually serialised by now, so their bytes can be counted.
        self.count_serialised();
        std::mem::take(&mut self.after_writes)
    }

    /// Deletes an object at the next revision, and returns its last state, with that revision; `None` if there is none.
    pub fn delete(
        &mut self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Stored>> {
        let table = self.tables.get_mut(storage)?;
        let key = object_key(namespace, name);
        let (key, old) = table.objects.remove_entry(key.as_str())?;
        table.order.remove(&key);
        self.revision += 1;
        let revision = self.revision;
        let new = Arc::new(old.restamped(revision));
        let change = Change {
            revision,
            old: Some(Arc::new(old.folded())),
            new: Arc::new(new.folded()),
            deleted: true,
        };
        self.after_writes.add_written(&new);
        self.remember(storage, key, change);
        Some(new)
    }

    /// Replaces all objects by these at `revision`; past revisions are dropped, so earlier watches expire.
    pub fn restore(&mut self, revision: u64, storages: &[(StorageKey, Vec<Arc<Stored>>)]) {
        self.revision = revision;
        self.compacted = revision;
        self.uncounted.clear();
        self.held.clear();
        self.held_bytes = 0;
        self.window.clear();
        let window = &self.window;
        self.tables = storages
            .iter()
            .map(|(storage, objects)| {
                let folded = |one: &Arc<Stored>| {
                    let key: Arc<str> = one.key().into();
                    let reporter = window.reporter(storage, &key);
                    (key, Arc::new(one.folded_in_store(reporter)))
                };
                let objects: HashMap<Arc<str>, Arc<Stored>> = objects
                    .iter()
                    // SRV-STORE-10: an object of a snapshot may not be serialised yet.
                    .inspect(|one| one.serialise())
                    .map(folded)
                    .collect();
                let table = Table {
                    order: objects.keys().cloned().collect(),
                    objects,
                    log: VecDeque::new(),
                    dropped: revision,
                };
                (storage.clone(), table)
            })
            .collect();
    }

    /// Drops every revision before `revision`, which itself stays readable. Does nothing if it was compacted already.
    pub fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        if revision <= self.compacted {
            return;
        }
        while self.counted() < revision
            && let Some(next) = self.uncounted.pop_front()
        {
            self.count_bytes(next);
        }
        while self.compacted < revision {
            self.compacted += 1;
            self.held_bytes -= self.held.pop_front().unwrap_or_default();
        }
        for table in self.tables.values_mut() {
            let is_old = |change: &Change| change.revision <= revision;
            while table.log.front().is_some_and(is_old)
                && let Some(change) = table.log.pop_front()
            {
                table.dropped = change.revision;
            }
        }
    }

    /// Returns the storages (resources of a group) that have at least one object.
    pub fn storages(&self) -> impl Iterator<Item = &StorageKey> {
        let tables = self.tables.iter();
        let used = tables.filter(|(_, table)| !table.objects.is_empty());
        used.map(|(key, _)| key)
    }

    fn remember(&mut self, storage: &StorageKey, key: Arc<str>, change: Change) {
        if let Some(untaken) = &mut self.untaken {
            untaken.push((storage.clone(), change.clone()));
        }
        let table = self.tables.entry(storage.clone()).or_default();
        table.log.push_back(change.clone());
        self.uncounted.push_back(Uncounted {
            storage: storage.clone(),
            key,
            change,
        });
        self.count_serialised();
    }

    /// Counts the bytes of the oldest changes, as far as they are serialised. If more than `WAITING` changes are
    /// uncounted, serialises the oldest of them (SRV-STORE-10). Then drops revisions above the limits of the log.
    fn count_serialised(&mut self) {
        while let Some(next) = self.uncounted.front()
            && (next.change.new.is_serialised() || self.uncounted.len() > WAITING)
            && let Some(next) = self.uncounted.pop_front()
        {
            self.count_bytes(next);
        }
        self.bound();
    }

    /// Returns the newest revision that `held_bytes` includes.
    fn counted(&self) -> u64 {
        self.compacted + u64::try_from(self.held.len()).unwrap_or_default()
    }

    /// Adds the bytes of a change to `held_bytes`, and serialises the change if no reader did so before.
    fn count_bytes(&mut self, next: Uncounted) {
        let change = next.change;
        let held = change.held();
        self.held.push_back(held);
        self.held_bytes += held;
        if !change.deleted {
            self.window.add(DecodedObject {
                storage: next.storage,
                key: next.key,
                revision: change.revision,
                bytes: change.new.bytes().len(),
            });
            self.fold(UNFOLDED);
        }
    }

    /// Drops the older half of the log if the log exceeds a limit (SRV-STORE-3).
    fn bound(&mut self) {
        let mut oldest = self.compacted;
        if self.revision - self.compacted > self.retained {
            oldest = self.revision - self.retained / 2;
        }
        if self.held_bytes > self.retained_bytes {
            let mut left = self.held_bytes;
            let mut from = self.compacted;
            for held in &self.held {
                // The newest change stays: otherwise the watches that have not read it yet would never see it.
                if left <= self.retained_bytes / 2 || from + 1 == self.counted() {
                    break;
                }
                left -= held;
                from += 1;
            }
            oldest = oldest.max(from);
        }
        self.compact(oldest);
    }
}

#[cfg(test)]
mod tests;
