//! Handle: declares kinds and their indexes, and removes kinds.

use std::sync::Arc;

use steersman_informer::Informer;
use steersman_object::{CONTROLLER_UID, IndexKey, Kind, OWNER_UID, Object, TypedObject};

use super::Cache;
use crate::error::Error;
use crate::shared::{AddIndex, IndexName, Purpose};

impl Cache {
    /// Returns the informer of the kind `K`, shared with all other callers, and declares it: it
    /// starts with the cache, or at once if the cache runs.
    ///
    /// # Errors
    ///
    /// [`Error::SeveralInformers`] if the kind is cached in several namespaces, [`Error::Stopped`].
    pub fn informer<K: TypedObject>(&self) -> Result<Informer<K>, Error> {
        let coverage = self.shared.coverage_of::<K>();
        let namespace = coverage.only_informer()?;
        let (_guard, declared) =
            self.shared
                .namespaced_informer(coverage.kind(), namespace, Purpose::Declare)?;
        Ok(declared.informer().clone())
    }

    /// Returns all informers of the kind `K`, one per cached namespace, and declares them like
    /// [`informer`](Self::informer).
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn informers<K: TypedObject>(&self) -> Result<Vec<Informer<K>>, Error> {
        self.informers_of(self.shared.coverage_of::<K>().kind())
    }

    /// Returns the informers like [`informers`](Self::informers), for a kind known only at runtime.
    ///
    /// # Errors
    ///
    /// Those of [`informers`](Self::informers).
    pub fn informers_of<K: Object>(&self, kind: &Kind) -> Result<Vec<Informer<K>>, Error> {
        self.of(kind).informers()
    }

    /// Registers a field index named `name` with at most one value per object.
    ///
    /// May be called before or after the cache runs, once per name. `value` must depend on the object alone.
    ///
    /// # Errors
    ///
    /// [`Error::IndexExists`], [`Error::Stopped`].
    pub fn index_field<K: TypedObject>(
        &self,
        name: &str,
        value: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register(name, value)
    }

    /// Registers a field index like [`index_field`](Self::index_field), with any number of values per object.
    ///
    /// # Errors
    ///
    /// Those of [`index_field`](Self::index_field).
    pub fn index_values<K: TypedObject>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register(name, values)
    }

    /// Registers a field index like [`index_values`](Self::index_values), with a typed key.
    ///
    /// # Errors
    ///
    /// Those of [`index_field`](Self::index_field).
    pub fn index_by<K: TypedObject, V: ToString>(
        &self,
        key: &IndexKey<K, V>,
        values: impl Fn(&K) -> Vec<V> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let texts = move |object: &K| -> Vec<String> {
            values(object).iter().map(ToString::to_string).collect()
        };
        self.register(key.name(), texts)
    }

    /// Indexes the owners of each object, for [`ListOptions::owned_by`](crate::ListOptions::owned_by).
    ///
    /// # Errors
    ///
    /// Those of [`index_field`](Self::index_field).
    pub fn index_owner_uids<K: TypedObject>(&self) -> Result<(), Error> {
        self.each::<K>(OWNER_UID, Informer::index_owner_uids)
    }

    /// Indexes the controlling owner of each object, for
    /// [`ListOptions::controlled_by`](crate::ListOptions::controlled_by).
    ///
    /// # Errors
    ///
    /// Those of [`index_field`](Self::index_field).
    pub fn index_controller_uid<K: TypedObject>(&self) -> Result<(), Error> {
        self.each::<K>(CONTROLLER_UID, Informer::index_controller_uid)
    }

    /// Indexes the values of one label, under the label's name.
    ///
    /// # Errors
    ///
    /// Those of [`index_field`](Self::index_field).
    pub fn index_label<K: TypedObject>(&self, label: &str) -> Result<(), Error> {
        let name = label.to_owned();
        self.each::<K>(label, move |informer| informer.index_label(&name))
    }

    /// Indexes all labels, so that the cost of a list under a label selector is proportional to its result.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn index_labels<K: TypedObject>(&self) -> Result<(), Error> {
        let _frozen = self.shared.scope.freeze();
        for informer in self.informers::<K>()? {
            informer.index_labels();
        }
        self.remember::<K>(None, Informer::index_labels);
        Ok(())
    }

    /// Ends the informers of the kind `K`, removes them from the cache and returns their number.
    ///
    /// Their watches stop, the subscriptions end at once, without the events that wait, and the cache
    /// drops the objects and the indexes of the kind. A later read or declaration creates a new informer (CACHE-7).
    /// Handles and stores of a removed informer keep its last state.
    ///
    /// A controller that watches the kind ends with its subscription.
    pub fn remove<K: TypedObject>(&self) -> usize {
        self.remove_kind(&Kind::of::<K>())
    }

    /// Removes the informers like [`remove`](Self::remove), for a kind known only at runtime.
    pub fn remove_kind(&self, kind: &Kind) -> usize {
        self.shared.scope.indexes.lock().remove(kind.gvk());
        let removed = self.shared.registry.write().remove(kind.gvk());
        for entry in &removed {
            // `end` is called outside the lock of the registry, because it notifies subscribers.
            entry.end();
        }
        removed.len()
    }

    fn register<K: TypedObject, I: IntoIterator<Item = String>>(
        &self,
        index: &str,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let (name, values) = (index.to_owned(), Arc::new(values));
        self.each::<K>(index, move |informer| {
            let values = Arc::clone(&values);
            informer.add_index(&name, move |object| values(object).into_iter().collect())
        })
    }

    fn each<K: TypedObject>(
        &self,
        index: &str,
        add: impl Fn(&Informer<K>) -> Result<(), steersman_informer::Error> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        // CACHE-13: an index is refused before the kind is declared and before an informer has the index.
        if index.is_empty() {
            let kind = Kind::of::<K>();
            return Err(Error::IndexWithoutName { kind });
        }
        let exists = || Error::IndexExists {
            kind: Kind::of::<K>(),
            index: index.to_owned(),
        };
        let _frozen = self.shared.scope.freeze();
        let informers = self.informers::<K>()?;
        let mut stores = informers.iter().map(Informer::as_store);
        if stores.any(|store| store.has_index(index)) {
            return Err(exists());
        }
        for informer in &informers {
            add(informer).map_err(|_| exists())?;
        }
        self.remember::<K>(Some(index.to_owned()), move |informer| {
            // Adding the index fails only if the informer has an index of this name, and a new informer has no such
            // index. An empty name was refused above.
            let _ = add(informer);
        });
        Ok(())
    }

    /// Records an index, for the informers that the kind gets later in further namespaces (CACHE-17).
    fn remember<K: TypedObject>(
        &self,
        name: IndexName,
        add: impl Fn(&Informer<K>) + Send + Sync + 'static,
    ) {
        let add: AddIndex = Arc::new(move |entry| add(&entry.informer(true)));
        let gvk = Kind::of::<K>().gvk().clone();
        self.shared.scope.add_index(gvk, name, add);
    }
}
