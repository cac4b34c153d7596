//! Handle: reads the objects of one informer from memory.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use steersman_api::Malformed;
use steersman_object::{Kind, LabelSelector, Object, ObjectKey, ResourceVersion};

use crate::entry::Entry;
use crate::error::Error;
use crate::store::indexer::Indexer;

/// The store as its reader and its writer share it.
pub(crate) struct Shared<K> {
    pub(crate) kind: Kind,
    pub(crate) indexer: RwLock<Indexer<K>>,
}

/// Reads the objects of one informer from memory; never waits for the server. Cheap to clone.
///
/// Each call sees one version of objects and indexes; two calls may see two. Before the informer
/// is synced a store is empty. After it has stopped the store keeps what it had.
///
/// Objects come as `Arc`, shared with everyone who reads them and never changed (`STORE-2`).
/// Lists are in the order of namespaces and names.
///
/// An object that does not decode as `K` does not appear, or, where an earlier version of it did
/// decode, stays as it last was; [`malformed`](Self::malformed) tells which.
pub struct Store<K> {
    shared: Arc<Shared<K>>,
}

impl<K: Object> Store<K> {
    pub(crate) fn new(shared: Arc<Shared<K>>) -> Self {
        Self { shared }
    }

    /// The kind of the objects.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.shared.kind
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let indexer = self.shared.indexer.read();
        indexer.get(key).map(Entry::body)
    }

    /// One object with what is known of it without its body.
    #[must_use]
    pub fn entry(&self, key: &ObjectKey) -> Option<Entry<K>> {
        self.shared.indexer.read().get(key).cloned()
    }

    /// All objects.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.list_with(None, &LabelSelector::everything())
    }

    /// The objects of a namespace (or of all) that have these labels. Labels are not indexed:
    /// this looks at each object of the namespace.
    #[must_use]
    pub fn list_with(&self, namespace: Option<&str>, labels: &LabelSelector) -> Vec<Arc<K>> {
        let entries = self.entries(namespace);
        let selected = entries.iter().filter(|entry| selects(labels, entry));
        selected.map(Entry::body).collect()
    }

    /// The entries of a namespace, or all of them.
    #[must_use]
    pub fn entries(&self, namespace: Option<&str>) -> Vec<Entry<K>> {
        let indexer = self.shared.indexer.read();
        indexer.entries(namespace).cloned().collect()
    }

    /// The objects that have a value in an index.
    ///
    /// # Errors
    ///
    /// Where there is no index of this name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, Error> {
        self.by_index_in(name, value, None)
    }

    /// The objects of a namespace (or of all) that have a value in an index.
    ///
    /// # Errors
    ///
    /// Where there is no index of this name.
    pub fn by_index_in(
        &self,
        name: &str,
        value: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<K>>, Error> {
        let indexer = self.shared.indexer.read();
        match indexer.indexed(name, value, namespace) {
            Some(entries) => Ok(entries.map(Entry::body).collect()),
            None => Err(self.no_such_index(name, &indexer.index_names())),
        }
    }

    /// Whether there is an index of this name.
    #[must_use]
    pub fn has_index(&self, name: &str) -> bool {
        let names = self.shared.indexer.read().index_names();
        names.iter().any(|known| known == name)
    }

    /// Calls `f` with each object of a namespace (or of all), without holding a lock.
    pub fn for_each(&self, namespace: Option<&str>, mut f: impl FnMut(&K)) {
        for entry in self.entries(namespace) {
            f(&entry.body());
        }
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.indexer.read().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version up to which everything the server said has been applied (events, bookmarks
    /// and relists); unset before the first.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        self.shared.indexer.read().version().clone()
    }

    /// The objects that do not decode as `K`, in the order of their keys.
    #[must_use]
    pub fn malformed(&self) -> Vec<Malformed> {
        let indexer = self.shared.indexer.read();
        indexer.malformed().values().cloned().collect()
    }

    /// What is wrong with the newest version of an object, if it does not decode. What
    /// [`get`](Self::get) returns for it is then an earlier version.
    #[must_use]
    pub fn malformed_at(&self, key: &ObjectKey) -> Option<Malformed> {
        self.shared.indexer.read().malformed().get(key).cloned()
    }

    fn no_such_index(&self, name: &str, known: &[String]) -> Error {
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        Error::NoSuchIndex {
            kind: self.shared.kind.to_string(),
            name: name.to_owned(),
            known,
        }
    }
}

fn selects<K: Object>(labels: &LabelSelector, entry: &Entry<K>) -> bool {
    labels.is_everything() || labels.matches(Some(entry.labels()))
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("kind", &self.shared.kind)
            .finish_non_exhaustive()
    }
}
