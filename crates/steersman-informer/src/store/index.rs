//! Machine: one named index: from a value to the entries that have it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_object::ObjectKey;

use crate::entry::Entry;

/// What an index says about one object. Pure: the same object gives the same values.
pub(crate) type IndexFn<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// Entries in the order of their keys.
pub(crate) type Ordered<K> = BTreeMap<Arc<ObjectKey>, Entry<K>>;

/// The values of one object in one index.
pub(crate) type IndexValues = Arc<[Arc<str>]>;

/// One named index.
pub(crate) struct Index<K> {
    name: Arc<str>,
    function: IndexFn<K>,
    by_value: HashMap<Arc<str>, Ordered<K>>,
    /// What each object was found to have, so that leaving the index needs no second opinion.
    values: HashMap<Arc<ObjectKey>, IndexValues>,
}

impl<K> Index<K> {
    pub(crate) fn new(name: &str, function: IndexFn<K>) -> Self {
        Self {
            name: name.into(),
            function,
            by_value: HashMap::new(),
            values: HashMap::new(),
        }
    }

    /// An index of the same name and function, with nothing in it.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            function: Arc::clone(&self.function),
            by_value: HashMap::with_capacity(self.by_value.len()),
            values: HashMap::with_capacity(self.values.len()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn function(&self) -> IndexFn<K> {
        Arc::clone(&self.function)
    }

    pub(crate) fn values_of(&self, key: &ObjectKey) -> IndexValues {
        self.values.get(key).cloned().unwrap_or_default()
    }

    /// Files an entry under its values, in place of the one before.
    pub(crate) fn put(&mut self, entry: &Entry<K>, values: &IndexValues) {
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

    /// The entries that have a value.
    pub(crate) fn get(&self, value: &str) -> Option<&Ordered<K>> {
        self.by_value.get(value)
    }
}

/// The entries of one namespace, or all of them.
pub(crate) fn within<'a, K>(
    entries: &'a Ordered<K>,
    namespace: Option<&'a str>,
) -> Box<dyn Iterator<Item = &'a Entry<K>> + 'a> {
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
