//! Handle: reads the objects of one informer from memory.

use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::RwLock;
use steersman_api::Malformed;
use steersman_object::{Kind, LabelSelector, ListOptions, Object, ObjectKey, ResourceVersion};

use crate::entry::{Entry, RawEntry};
use crate::error::Error;
use crate::store::collect::{LazyList, ListCollector};
use crate::store::indexer::Indexer;
use crate::store::query::{
    EntryList, IndexedValue, ObjectList, distinct, having, select, unreadable,
};
use crate::store::view::{View, ViewHandle};

pub(crate) struct StoreState {
    pub(crate) kind: Kind,
    pub(crate) indexer: RwLock<Indexer>,
}

/// Reads the objects of one informer, decoded as `K`, from memory and without waiting for the server. Cheap to clone.
///
/// Each call sees one version of objects and indexes; two calls may see two versions. The store is
/// empty before the informer has synced, and keeps its objects after the informer has stopped.
///
/// Objects are shared and never changed (STORE-2). Lists are ordered by namespace and name.
///
/// An object that does not decode as `K` is left out, or stays at the last version that did decode;
/// [`malformed`](Self::malformed) lists both.
#[derive(Clone, derive_more::Debug)]
#[debug("Store {{ kind: {:?}, .. }}", shared.kind)]
pub struct Store<K> {
    shared: Arc<StoreState>,
    handle: Arc<ViewHandle>,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Store<K> {
    pub(crate) fn new(shared: Arc<StoreState>, handle: Arc<ViewHandle>) -> Self {
        Self {
            shared,
            handle,
            of: PhantomData,
        }
    }

    /// Returns the kind of the objects.
    pub fn kind(&self) -> &Kind {
        &self.shared.kind
    }

    /// Returns the object with this key; `None` if the store has none, or no version of the object decodes as `K`.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let entry = {
            let indexer = self.shared.indexer.read();
            let entry = self.view(&indexer)?.sees(indexer.get(key)?)?;
            match entry.cached() {
                Some(object) => return object.ok(),
                None => entry.clone(),
            }
        };
        // STORE-7: no lock is held while decoding.
        entry.decoded().ok()
    }

    /// Returns an object if it is decoded and no writer holds the lock of the store. Never waits and decodes nothing,
    /// so `None` does not mean that the object is absent; [`try_get`](Self::try_get) tells. For `steersman-cache`.
    #[doc(hidden)]
    pub fn get_decoded(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let indexer = self.shared.indexer.try_read()?;
        let entry = self.view(&indexer)?.sees(indexer.get(key)?)?;
        entry.cached()?.ok()
    }

    /// Returns the object with this key; `None` if the store has none.
    ///
    /// # Errors
    ///
    /// Returns the decode error if no version of the object decoded.
    pub fn try_get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Malformed> {
        self.get_with_version(key).0
    }

    /// Returns one object as [`try_get`](Self::try_get) does, with the resource version of the store at the read.
    pub fn get_with_version(
        &self,
        key: &ObjectKey,
    ) -> (Result<Option<Arc<K>>, Malformed>, ResourceVersion) {
        let (entry, version) = {
            let indexer = self.shared.indexer.read();
            let version = indexer.version().clone();
            let view = self.view(&indexer);
            let seen = || view?.sees(indexer.get(key)?);
            let Some(entry) = seen() else {
                let aside = || view?.malformed_at(key);
                let malformed = indexer.malformed().get(key).or_else(aside);
                let absent = malformed.map_or(Ok(None), |malformed| Err(malformed.clone()));
                return (absent, version);
            };
            match entry.cached() {
                Some(Ok(object)) => return (Ok(Some(object)), version),
                _ => (entry.clone(), version),
            }
        };
        // STORE-7: no lock is held while decoding.
        let object = entry.decoded().map(Some);
        (object.map_err(|problem| entry.malformed(&problem)), version)
    }

    /// Returns one object's metadata as an entry, without decoding the body; `None` if the store has no such object.
    pub fn entry(&self, key: &ObjectKey) -> Option<Entry<K>> {
        let indexer = self.shared.indexer.read();
        let entry = self.view(&indexer)?.sees(indexer.get(key)?)?;
        Some(entry.cast())
    }

    /// Returns all objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.list_with(None, &LabelSelector::everything())
    }

    /// Returns the objects of a namespace (`None`: of all) with these labels. Without an index for the labels, every
    /// object of the namespace is visited.
    pub fn list_with(&self, namespace: Option<&str>, labels: &LabelSelector) -> Vec<Arc<K>> {
        let query = ListOptions::new()
            .labels(labels.clone())
            .namespace(namespace.unwrap_or_default());
        // The query names no index, so it cannot fail.
        self.list_matching(&query)
            .map(|found| found.objects)
            .unwrap_or_default()
    }

    /// Returns the objects that a query selects, at one version.
    ///
    /// # Errors
    ///
    /// Returns an error if the query names an index that does not exist.
    pub fn list_matching(&self, query: &ListOptions) -> Result<ObjectList<K>, Error> {
        Ok(self.list_lazily(query)?.end())
    }

    /// Returns the selected objects as [`list_matching`](Self::list_matching) does, but decodes them on demand, so that
    /// a task can yield in between.
    ///
    /// # Errors
    ///
    /// As [`list_matching`](Self::list_matching).
    pub fn list_lazily(&self, query: &ListOptions) -> Result<LazyList<K>, Error> {
        let indexer = self.shared.indexer.read();
        let mut found = ListCollector::new();
        let (version, unreadable) = self.look(&indexer, query, |entry| found.push(entry))?;
        Ok(found.end(version, unreadable))
    }

    /// Returns the entries that a query selects, at one version. Nothing is decoded.
    ///
    /// # Errors
    ///
    /// As [`list_matching`](Self::list_matching).
    pub fn list_entries(&self, query: &ListOptions) -> Result<EntryList<K>, Error> {
        let mut entries = Vec::new();
        let indexer = self.shared.indexer.read();
        let (version, unreadable) =
            self.look(&indexer, query, |entry| entries.push(entry.cast()))?;
        Ok(EntryList {
            entries,
            version,
            unreadable,
        })
    }

    /// Returns the keys of the objects that a query selects, in order.
    ///
    /// # Errors
    ///
    /// As [`list_matching`](Self::list_matching).
    pub fn keys(&self, query: &ListOptions) -> Result<Vec<ObjectKey>, Error> {
        let mut keys = Vec::new();
        let indexer = self.shared.indexer.read();
        self.look(&indexer, query, |entry| keys.push(entry.key().clone()))?;
        Ok(keys)
    }

    /// Returns every value of an index in order, with the number of objects that have it.
    ///
    /// # Errors
    ///
    /// Returns an error if no index has this name.
    pub fn index_values(&self, name: &str) -> Result<Vec<IndexedValue>, Error> {
        let indexer = self.shared.indexer.read();
        let view = self.view(&indexer);
        let index = view
            .filter(|_| !name.is_empty())
            .and_then(|view| view.index(name));
        let values = index.map(distinct);
        values.ok_or_else(|| self.no_such_index(name, view))
    }

    /// Returns the entries of a namespace (`None`: of all namespaces). Nothing is decoded.
    pub fn entries(&self, namespace: Option<&str>) -> Vec<Entry<K>> {
        let indexer = self.shared.indexer.read();
        let Some(view) = self.view(&indexer) else {
            return Vec::new();
        };
        indexer.seen(view, namespace).map(RawEntry::cast).collect()
    }

    /// Returns the objects for which the index `name` has `value`.
    ///
    /// # Errors
    ///
    /// Returns an error if no index has this name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, Error> {
        self.by_index_in(name, value, None)
    }

    /// Returns the objects of a namespace (`None`: of all) for which the index `name` has `value`.
    ///
    /// # Errors
    ///
    /// Returns an error if no index has this name.
    pub fn by_index_in(
        &self,
        name: &str,
        value: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<K>>, Error> {
        let found = {
            let indexer = self.shared.indexer.read();
            let Some(view) = self.view(&indexer) else {
                return Ok(Vec::new());
            };
            let mut found = ListCollector::new();
            having(view, name, value, namespace, |entry| found.push(entry))
                .map_err(|name| self.no_such_index(name, Some(view)))?;
            found.end(indexer.version().clone(), None)
        };
        Ok(found.end().objects)
    }

    /// Returns whether the view of this reader has an index of this name, so that lists by that index do not fail.
    pub fn has_index(&self, name: &str) -> bool {
        let indexer = self.shared.indexer.read();
        self.view(&indexer)
            .is_some_and(|view| view.index(name).is_some())
    }

    /// Calls `f` with each object of a namespace (`None`: of all), without holding a lock.
    pub fn for_each(&self, namespace: Option<&str>, mut f: impl FnMut(&K)) {
        for entry in self.entries(namespace) {
            f(&entry.decode_once());
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        let indexer = self.shared.indexer.read();
        match self.view(&indexer) {
            Some(view) if view.malformed().next().is_none() && view.ready => indexer.len(),
            Some(view) => indexer.seen(view, None).count(),
            None => 0,
        }
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the version up to which all events, bookmarks and lists were applied; unset before the first list.
    pub fn version(&self) -> ResourceVersion {
        self.shared.indexer.read().version().clone()
    }

    /// Returns the objects that do not decode as `K`, ordered by key.
    pub fn malformed(&self) -> Vec<Malformed> {
        let indexer = self.shared.indexer.read();
        // If no type decodes the newest version, its error replaces the error of an older version for this type.
        let mut malformed = indexer.malformed().clone();
        for aside in self.view(&indexer).into_iter().flat_map(View::malformed) {
            let known = malformed.entry(aside.key.clone());
            known.or_insert_with(|| aside.clone());
        }
        malformed.into_values().collect()
    }

    /// Returns the decode error of an object's newest version, if it does not decode; [`get`](Self::get) then returns
    /// an earlier version.
    pub fn malformed_at(&self, key: &ObjectKey) -> Option<Malformed> {
        let indexer = self.shared.indexer.read();
        let aside = || self.view(&indexer)?.malformed_at(key);
        indexer.malformed().get(key).or_else(aside).cloned()
    }

    /// Calls `found` with each selected entry, in order. Returns the store's version, and the first unreadable object.
    fn look<'a>(
        &self,
        indexer: &'a Indexer,
        query: &ListOptions,
        found: impl FnMut(&'a RawEntry),
    ) -> Result<(ResourceVersion, Option<Malformed>), Error> {
        Error::refuse_fields(self.kind(), query)?;
        let version = indexer.version().clone();
        let Some(view) = self.view(indexer) else {
            return Ok((version, None));
        };
        let selected = select(indexer, Some(view), query, found);
        selected.map_err(|name| self.no_such_index(name, Some(view)))?;
        let unreadable = unreadable(indexer, Some(view), query.selected_namespace());
        Ok((version, unreadable))
    }

    fn view<'a>(&self, indexer: &'a Indexer) -> Option<&'a View> {
        indexer.view(self.handle.id)
    }

    fn no_such_index(&self, name: &str, view: Option<&View>) -> Error {
        let mut known = view.map(View::index_names).unwrap_or_default();
        known.retain(|name| !name.is_empty());
        let known = if known.is_empty() {
            "it has no index".to_owned()
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

impl<K> Store<K> {
    pub(crate) fn handle(&self) -> &Arc<ViewHandle> {
        &self.handle
    }
}
