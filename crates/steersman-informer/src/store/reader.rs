//! Handle: reads the objects of one informer from memory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::RwLock;
use steersman_api::Malformed;
use steersman_object::{Kind, LabelSelector, Object, ObjectKey, ResourceVersion};

use crate::entry::{Entry, RawEntry};
use crate::error::Error;
use crate::store::index::within;
use crate::store::indexer::Indexer;
use crate::store::view::{Held, View};

/// The store as its reader and its writer share it.
pub(crate) struct Shared {
    pub(crate) kind: Kind,
    pub(crate) indexer: RwLock<Indexer>,
}

/// Reads the objects of one informer as a `K` from memory; never waits for the server. Cheap to clone.
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
    shared: Arc<Shared>,
    held: Arc<Held>,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Store<K> {
    pub(crate) fn new(shared: Arc<Shared>, held: Arc<Held>) -> Self {
        Self {
            shared,
            held,
            of: PhantomData,
        }
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
        let entry = self.view(&indexer)?.sees(indexer.get(key)?)?;
        entry.raw_body().decoded().ok()
    }

    /// One object with what is known of it without its body.
    #[must_use]
    pub fn entry(&self, key: &ObjectKey) -> Option<Entry<K>> {
        let indexer = self.shared.indexer.read();
        let entry = self.view(&indexer)?.sees(indexer.get(key)?)?;
        Some(entry.cast())
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
        let Some(view) = self.view(&indexer) else {
            return Vec::new();
        };
        indexer.seen(view, namespace).map(RawEntry::cast).collect()
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
        let view = self.view(&indexer);
        let Some(index) = view.and_then(|view| view.index(name)) else {
            let names = view.map(View::index_names).unwrap_or_default();
            return Err(self.no_such_index(name, &names));
        };
        let entries: Vec<Entry<K>> = match index.get(value) {
            Some(entries) => within(entries, namespace).map(RawEntry::cast).collect(),
            None => Vec::new(),
        };
        drop(indexer);
        Ok(entries.iter().map(Entry::body).collect())
    }

    /// Whether there is an index of this name.
    #[must_use]
    pub fn has_index(&self, name: &str) -> bool {
        let indexer = self.shared.indexer.read();
        self.view(&indexer)
            .is_some_and(|view| view.index(name).is_some())
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
        let indexer = self.shared.indexer.read();
        match self.view(&indexer) {
            Some(view) if view.malformed().next().is_none() && view.is_ready() => indexer.len(),
            Some(view) => indexer.seen(view, None).count(),
            None => 0,
        }
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
        // What nobody can read is newer than what this type could not.
        let mut malformed = indexer.malformed().clone();
        for aside in self.view(&indexer).into_iter().flat_map(View::malformed) {
            let known = malformed.entry(aside.key.clone());
            known.or_insert_with(|| aside.clone());
        }
        malformed.into_values().collect()
    }

    /// What is wrong with the newest version of an object, if it does not decode. What
    /// [`get`](Self::get) returns for it is then an earlier version.
    #[must_use]
    pub fn malformed_at(&self, key: &ObjectKey) -> Option<Malformed> {
        let indexer = self.shared.indexer.read();
        let aside = || self.view(&indexer)?.malformed_at(key);
        indexer.malformed().get(key).or_else(aside).cloned()
    }

    /// It is there as long as this handle is.
    fn view<'a>(&self, indexer: &'a Indexer) -> Option<&'a View> {
        indexer.view(self.held.id())
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
            held: Arc::clone(&self.held),
            of: PhantomData,
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
