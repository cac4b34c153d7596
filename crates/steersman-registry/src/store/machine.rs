//! Machine: the multi-version store, with one revision counter over every kind.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use steersman_schema::resource::StorageKey;

use super::decoded::Draft;
use super::object::{Made, Stored, object_key};

/// One past revision: what it did to which object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The revision.
    pub revision: u64,
    /// The object before, if there was one.
    pub old: Option<Arc<Stored>>,
    /// The object after; for a delete its last state, stamped with the deleting revision.
    pub new: Arc<Stored>,
    /// Whether the revision removed the object.
    pub deleted: bool,
}

/// Why a past revision cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// It was compacted; `oldest` is the oldest revision that can still be read.
    Compacted {
        /// The oldest readable revision.
        oldest: u64,
    },
    /// It has not happened yet.
    Future {
        /// The newest revision.
        current: u64,
    },
}

/// Every object, and enough of the past to replay it.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    compacted: u64,
    retained: u64,
    retained_bytes: u64,
    /// For every revision after the compacted one the bytes that are kept for its sake.
    held: VecDeque<u64>,
    held_bytes: u64,
    tables: HashMap<StorageKey, Table>,
    /// The newest objects, which are decoded, and their bytes as JSON.
    unfolded: VecDeque<Unfolded>,
    unfolded_bytes: usize,
    /// Decoded objects that nobody finds here any more; see [`take_spent`](Self::take_spent).
    spent: Vec<Arc<Stored>>,
}

/// Where an object is that was written a moment ago, and the revision that it had then.
#[derive(Debug)]
struct Unfolded {
    storage: StorageKey,
    key: Arc<str>,
    revision: u64,
    bytes: usize,
}

/// As much JSON of the newest objects stays decoded, which takes some ten times the room: who writes
/// an object often writes it again, or reads what became of it.
const UNFOLDED: usize = 4 << 20;

/// So many objects wait at most for somebody to take them down, about twice as many as one turn of
/// the player replaces (SRV-STORE-7).
const SPENT: usize = 256;

#[derive(Debug, Default)]
struct Table {
    /// By [`Stored::key`]. A write of an object that exists touches nothing else.
    objects: HashMap<Arc<str>, Arc<Stored>>,
    /// The keys of `objects`, in the order in which lists give them (SRV-STORE-5).
    order: BTreeSet<Arc<str>>,
    log: VecDeque<Change>,
    dropped: u64,
}

impl Change {
    /// The JSON that is kept only because this change is remembered.
    fn held(&self) -> u64 {
        let old = self.old.as_ref().map_or(0, |old| old.bytes.len());
        let last = if self.deleted {
            self.new.bytes.len()
        } else {
            0
        };
        u64::try_from(old + last).unwrap_or(u64::MAX)
    }
}

impl Store {
    /// An empty store at revision 1 that keeps at most `retained` past revisions, and of them at
    /// most `retained_bytes` of JSON; the newest revision is kept however large it is.
    #[must_use]
    pub fn new(retained: usize, retained_bytes: usize) -> Self {
        Self {
            revision: 1,
            compacted: 0,
            retained: u64::try_from(retained.max(2)).unwrap_or(u64::MAX),
            retained_bytes: u64::try_from(retained_bytes).unwrap_or(u64::MAX),
            held: VecDeque::from([0]),
            held_bytes: 0,
            tables: HashMap::new(),
            unfolded: VecDeque::new(),
            unfolded_bytes: 0,
            spent: Vec::new(),
        }
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The oldest revision that can still be read or watched from.
    #[must_use]
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The newest state of one object.
    #[must_use]
    pub fn get(&self, storage: &StorageKey, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        let table = self.tables.get(storage)?;
        table.objects.get(object_key(namespace, name).as_str())
    }

    /// Returns the number of objects of a storage that are held decoded beside their encoded form.
    #[must_use]
    pub fn decoded(&self, storage: &StorageKey) -> usize {
        let all = self.tables.get(storage).into_iter();
        let objects = all.flat_map(|table| table.objects.values());
        objects.filter(|object| object.is_decoded()).count()
    }

    /// How many objects there are.
    #[must_use]
    pub fn count(&self, storage: &StorageKey) -> usize {
        self.tables
            .get(storage)
            .map_or(0, |table| table.objects.len())
    }

    /// Objects of one namespace (or all), in order, newest state.
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

    /// Objects as they were at `revision`: the newest state with the log undone behind it.
    ///
    /// # Errors
    /// When the revision was compacted or has not happened.
    pub fn list_at(
        &self,
        storage: &StorageKey,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, Unreadable> {
        if revision > self.revision {
            return Err(Unreadable::Future {
                current: self.revision,
            });
        }
        if revision < self.compacted {
            return Err(Unreadable::Compacted {
                oldest: self.compacted,
            });
        }
        let mut objects: BTreeMap<String, Arc<Stored>> = self
            .list(storage, namespace)
            .map(|stored| (stored.key(), Arc::clone(stored)))
            .collect();
        if let Some(table) = self.tables.get(storage) {
            for change in table
                .log
                .iter()
                .rev()
                .take_while(|change| change.revision > revision)
            {
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

    /// Changes of one storage after `revision`, oldest first.
    ///
    /// # Errors
    /// When some of them are forgotten. A position that lost nothing of its own storage stays
    /// readable however far the counter went (SRV-STORE-4).
    pub fn changes<'a>(
        &'a self,
        storage: &StorageKey,
        after: u64,
    ) -> Result<impl Iterator<Item = &'a Change> + use<'a>, Unreadable> {
        let table = self.tables.get(storage);
        if table.is_some_and(|table| after < table.dropped) {
            return Err(Unreadable::Compacted {
                oldest: self.compacted,
            });
        }
        Ok(table.into_iter().flat_map(move |table| {
            let start = table.log.partition_point(|change| change.revision <= after);
            table.log.range(start..)
        }))
    }

    /// Writes an object as the next revision (SRV-STORE-1: one revision, one change).
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
                Made::Modified,
                Arc::clone(key),
                Arc::clone(&old.namespace),
                Arc::clone(&old.name),
            ),
            None => (Made::Added, key.into(), namespace.into(), name.into()),
        };
        let stored = Stored::made((namespace, name), object.into(), revision, made);
        let stored = Arc::new(stored);
        if made == Made::Added {
            table.order.insert(Arc::clone(&key));
        }
        let old = table.objects.insert(Arc::clone(&key), Arc::clone(&stored));
        self.unfolded_bytes += stored.bytes.len();
        self.unfolded.push_back(Unfolded {
            storage: storage.clone(),
            key,
            revision,
            bytes: stored.bytes.len(),
        });
        self.fold();
        // SRV-STORE-7: whoever looks at the object decodes his own, not the one that is remembered.
        let change = Change {
            revision,
            old: old.as_ref().map(|old| Arc::new(old.folded())),
            new: Arc::new(stored.folded()),
            deleted: false,
        };
        if let Some(old) = old {
            spend(&mut self.spent, old);
        }
        self.remember(storage, change);
        stored
    }

    /// Keeps of the objects that were written longest ago their JSON alone (SRV-STORE-7).
    fn fold(&mut self) {
        while self.unfolded_bytes > UNFOLDED
            && let Some(oldest) = self.unfolded.pop_front()
        {
            self.unfolded_bytes -= oldest.bytes;
            let table = self.tables.get_mut(&oldest.storage);
            let object = table.and_then(|table| table.objects.get_mut(&oldest.key));
            if let Some(object) = object.filter(|object| object.revision == oldest.revision) {
                let folded = Arc::new(object.folded());
                spend(&mut self.spent, std::mem::replace(object, folded));
            }
        }
    }

    /// The decoded objects that were replaced since the last call. A tree is taken down node by node:
    /// whoever holds a lock does it when he has let go.
    #[must_use = "it takes a while to drop them"]
    pub fn take_spent(&mut self) -> Vec<Arc<Stored>> {
        std::mem::take(&mut self.spent)
    }

    /// Removes an object as the next revision, and answers its last state with that revision.
    pub fn delete(
        &mut self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Stored>> {
        let table = self.tables.get_mut(storage)?;
        let key = object_key(namespace, name);
        let old = table.objects.remove(key.as_str())?;
        table.order.remove(key.as_str());
        self.revision += 1;
        let revision = self.revision;
        let new = Arc::new(old.restamped(revision));
        let change = Change {
            revision,
            old: Some(Arc::new(old.folded())),
            new: Arc::new(new.folded()),
            deleted: true,
        };
        self.remember(storage, change);
        Some(new)
    }

    /// Becomes what these objects are at `revision`, without a past.
    pub fn restore(&mut self, revision: u64, storages: &[(StorageKey, Vec<Arc<Stored>>)]) {
        self.revision = revision;
        self.compacted = revision;
        self.held.clear();
        self.held_bytes = 0;
        self.unfolded.clear();
        self.unfolded_bytes = 0;
        self.tables = storages
            .iter()
            .map(|(storage, objects)| {
                let objects: HashMap<Arc<str>, Arc<Stored>> = objects
                    .iter()
                    .map(|one| (one.key().into(), Arc::clone(one)))
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

    /// Forgets every revision before `revision`; the state at `revision` stays readable.
    pub fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        if revision <= self.compacted {
            return;
        }
        while self.compacted < revision {
            self.compacted += 1;
            self.held_bytes -= self.held.pop_front().unwrap_or_default();
        }
        for table in self.tables.values_mut() {
            while table
                .log
                .front()
                .is_some_and(|change| change.revision <= revision)
            {
                if let Some(change) = table.log.pop_front() {
                    table.dropped = change.revision;
                }
            }
        }
    }

    /// Storages that hold objects of a namespace.
    pub fn storages(&self) -> impl Iterator<Item = &StorageKey> {
        self.tables
            .iter()
            .filter(|(_, table)| !table.objects.is_empty())
            .map(|(key, _)| key)
    }

    fn remember(&mut self, storage: &StorageKey, change: Change) {
        let held = change.held();
        self.held.push_back(held);
        self.held_bytes += held;
        let table = self.tables.entry(storage.clone()).or_default();
        table.log.push_back(change);
        self.bound();
    }

    /// Keeps the log within its bounds: beyond one of them, the older half goes (SRV-STORE-3).
    fn bound(&mut self) {
        let mut oldest = self.compacted;
        if self.revision - self.compacted > self.retained {
            oldest = self.revision - self.retained / 2;
        }
        if self.held_bytes > self.retained_bytes {
            let mut left = self.held_bytes;
            let mut from = self.compacted;
            for held in &self.held {
                // The newest change stays, or nobody who waits for it would ever see it.
                if left <= self.retained_bytes / 2 || from + 1 == self.revision {
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

/// Keeps an object for [`Store::take_spent`], where there is much to take down.
fn spend(spent: &mut Vec<Arc<Stored>>, old: Arc<Stored>) {
    if old.is_decoded() && spent.len() < SPENT {
        spent.push(old);
    }
}

#[cfg(test)]
mod tests;
