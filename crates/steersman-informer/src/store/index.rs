//! Machine: one named index: from a value to the entries that have it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_object::ObjectKey;

use crate::entry::RawEntry;

/// What an index says about one object, or what went wrong. Pure: the same object gives the same
/// values.
pub(crate) type IndexFn = Arc<dyn Fn(&RawEntry) -> Result<Vec<String>, Arc<str>> + Send + Sync>;

/// Entries in the order of their keys.
pub(crate) type Ordered = BTreeMap<Arc<ObjectKey>, RawEntry>;

/// The values of one object in one index.
pub(crate) type IndexValues = Arc<[Arc<str>]>;

/// One named index.
#[derive(Clone)]
pub(crate) struct Index {
    name: Arc<str>,
    function: IndexFn,
    by_value: HashMap<Arc<str>, Ordered>,
    /// What each object was found to have, so that leaving the index needs no second opinion.
    values: HashMap<Arc<ObjectKey>, IndexValues>,
}

impl Index {
    pub(crate) fn new(name: &str, function: IndexFn) -> Self {
        Self {
            name: name.into(),
            function,
            by_value: HashMap::new(),
            values: HashMap::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn function(&self) -> IndexFn {
        Arc::clone(&self.function)
    }

    /// Files an entry under its values, in place of the one before.
    pub(crate) fn put(&mut self, entry: &RawEntry, values: &IndexValues) {
        let key = entry.shared_key();
        if self.values.get(&key) != Some(values) {
            self.remove(&key);
            // An object without a value takes no room.
            if values.is_empty() {
                return;
            }
            self.values.insert(Arc::clone(&key), Arc::clone(values));
        }
        for value in values.iter() {
            let entries = self.by_value.entry(Arc::clone(value)).or_default();
            entries.insert(Arc::clone(&key), entry.clone());
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let Some(values) = self.values.remove(key) else {
            return;
        };
        for value in values.iter() {
            if let Some(entries) = self.by_value.get_mut(value) {
                entries.remove(key);
                if entries.is_empty() {
                    self.by_value.remove(value);
                }
            }
        }
    }

    /// Whether an object has a value.
    pub(crate) fn has(&self, key: &ObjectKey, value: &str) -> bool {
        self.get(value)
            .is_some_and(|entries| entries.contains_key(key))
    }

    /// Each value that an object has, with how many have it.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let filed = self.by_value.iter();
        filed.map(|(value, entries)| (value, entries.len()))
    }

    /// The entries that have a value.
    pub(crate) fn get(&self, value: &str) -> Option<&Ordered> {
        self.by_value.get(value)
    }
}

/// The entries of one namespace, or all of them.
pub(crate) fn within<'a>(
    entries: &'a Ordered,
    namespace: Option<&'a str>,
) -> Box<dyn Iterator<Item = &'a RawEntry> + 'a> {
    let Some(namespace) = namespace else {
        return Box::new(entries.values());
    };
    // Keys are ordered by namespace first; an empty name comes before all others.
    let start = ObjectKey::namespaced(namespace, "");
    Box::new(
        entries
            .range::<ObjectKey, _>(&start..)
            .map(|(_, entry)| entry)
            .take_while(move |entry| entry.key().namespace() == Some(namespace)),
    )
}
