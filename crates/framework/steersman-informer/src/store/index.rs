//! Machine: one named index, from a value to the entries with this value.

use std::sync::Arc;

use hashbrown::HashMap;
use steersman_object::ObjectKey;

use crate::entry::RawEntry;
use crate::store::table::{EntryTable, Keyed, Ordered};
use crate::view_results::IndexValues;

/// Returns the index values of one object, or an error. Must be pure.
pub(crate) type IndexFn = Arc<dyn Fn(&RawEntry) -> Result<Vec<String>, Arc<str>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Index {
    name: Arc<str>,
    function: IndexFn,
    /// Whether the index has the values of one label, with the label's key as its name, so that selectors can use it.
    pub(crate) of_label: bool,
    by_value: HashMap<Arc<str>, IndexBucket>,
    /// The values of each object, so that the function is not called again when the object is removed.
    by_key: EntryTable<IndexedEntry>,
}

#[derive(Clone)]
struct IndexBucket {
    alone: IndexValues,
    entries: Ordered,
}

#[derive(Clone)]
struct IndexedEntry {
    entry: RawEntry,
    values: IndexValues,
}

impl Index {
    pub(crate) fn new(name: &str, function: IndexFn) -> Self {
        Self {
            name: name.into(),
            function,
            of_label: false,
            by_value: HashMap::new(),
            by_key: EntryTable::default(),
        }
    }

    /// Returns an index of a label's values, under the label's name. Lists with a label selector use such an index, too.
    pub(crate) fn of_label(label: &str) -> Self {
        let key = label.to_owned();
        let value = move |entry: &RawEntry| {
            let value = entry.labels().get(&key);
            Ok(value.map(ToOwned::to_owned).into_iter().collect())
        };
        Self {
            of_label: true,
            ..Self::new(label, Arc::new(value))
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn function(&self) -> IndexFn {
        Arc::clone(&self.function)
    }

    /// Adds an entry under its values, in place of the previous entry of its key.
    pub(crate) fn put(&mut self, entry: &RawEntry, values: &IndexValues) {
        match self.by_key.get_mut(entry.key()) {
            Some(by_key) if by_key.values == *values => by_key.entry = entry.clone(),
            _ => {
                self.remove(entry.key());
                // An object without values takes no memory in the index.
                if values.is_empty() {
                    return;
                }
                let values = self.shared(values);
                let entry = entry.clone();
                self.by_key.insert(IndexedEntry { entry, values });
            }
        }
        for value in values.iter() {
            if let Some(bucket) = self.by_value.get_mut(value) {
                bucket.entries.insert(entry.clone());
            }
        }
    }

    /// Returns the values, shared with an earlier object that has the same values (POOL-1).
    fn shared(&mut self, values: &IndexValues) -> IndexValues {
        let mut share = |value: &Arc<str>| {
            if let Some(bucket) = self.by_value.get(value) {
                return Arc::clone(&bucket.alone);
            }
            let alone: IndexValues = [Arc::clone(value)].into();
            let bucket = IndexBucket {
                alone: Arc::clone(&alone),
                entries: Ordered::default(),
            };
            self.by_value.insert(Arc::clone(value), bucket);
            alone
        };
        if let [value] = &**values {
            return share(value);
        }
        let first = |alone: IndexValues| alone.first().map(Arc::clone);
        values
            .iter()
            .filter_map(|value| first(share(value)))
            .collect()
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let Some(IndexedEntry { values, .. }) = self.by_key.remove(key) else {
            return;
        };
        for value in values.iter() {
            if let Some(bucket) = self.by_value.get_mut(value) {
                bucket.entries.remove(key);
                if bucket.entries.is_empty() {
                    self.by_value.remove(value);
                }
            }
        }
    }

    pub(crate) fn has(&self, key: &ObjectKey, value: &str) -> bool {
        self.get(value).is_some_and(|entries| entries.contains(key))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let bucket = self.by_value.iter();
        bucket.map(|(value, bucket)| (value, bucket.entries.len()))
    }

    pub(crate) fn get(&self, value: &str) -> Option<&Ordered> {
        self.by_value.get(value).map(|bucket| &bucket.entries)
    }
}

impl Keyed for IndexedEntry {
    fn key(&self) -> &ObjectKey {
        self.entry.key()
    }
}
