//! Handle: declares kinds and their indexes.

use steersman_informer::Informer;
use steersman_object::{CONTROLLER_UID, IndexKey, Kind, OWNER_UID, Object, TypedObject};

use super::Cache;
use crate::error::Error;
use crate::field_index::FieldIndex;
use crate::shared::Use;

impl Cache {
    /// The informer of the kind `K`, shared with whoever asks for it too. Declares it: it starts with the
    /// cache, or now if the cache runs.
    ///
    /// # Errors
    ///
    /// [`Error::SeveralInformers`] where the kind is cached in several namespaces,
    /// [`Error::Stopped`].
    pub fn informer<K: TypedObject>(&self) -> Result<Informer<K>, Error> {
        let coverage = self.shared.coverage_of::<K>();
        let namespace = coverage.only_informer()?;
        self.shared.declare(coverage.kind(), namespace, Use::Meant)
    }

    /// All informers of the kind `K`: one, or one for each namespace it is cached in. Declares them, as
    /// [`informer`](Self::informer).
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn informers<K: TypedObject>(&self) -> Result<Vec<Informer<K>>, Error> {
        self.informers_of(self.shared.coverage_of::<K>().kind())
    }

    /// As [`informers`](Self::informers), of a kind known only at runtime.
    ///
    /// # Errors
    ///
    /// As [`informers`](Self::informers).
    pub fn informers_of<K: Object>(&self, kind: &Kind) -> Result<Vec<Informer<K>>, Error> {
        self.of(kind).informers()
    }

    /// Registers a field index: under `name`, an object is found by the value of a field it may have.
    ///
    /// May be called before or after the cache runs, once for each name. `value` must depend on the object
    /// alone.
    ///
    /// # Errors
    ///
    /// [`Error::IndexExists`], [`Error::Stopped`].
    pub fn index_field<K: TypedObject>(
        &self,
        name: &str,
        value: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register(&FieldIndex::new(name, value))
    }

    /// As [`index_field`](Self::index_field), for what an object has many of: it is found by each value.
    ///
    /// # Errors
    ///
    /// As [`index_field`](Self::index_field).
    pub fn index_values<K: TypedObject>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register(&FieldIndex::new(name, values))
    }

    /// As [`index_values`](Self::index_values), under a typed key.
    ///
    /// # Errors
    ///
    /// As [`index_field`](Self::index_field).
    pub fn index_by<K: TypedObject, V: ToString>(
        &self,
        key: &IndexKey<K, V>,
        values: impl Fn(&K) -> Vec<V> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let texts = move |object: &K| -> Vec<String> {
            values(object).iter().map(ToString::to_string).collect()
        };
        self.register(&FieldIndex::new(key.name(), texts))
    }

    /// Indexes the owners of each object: see
    /// [`Selection::owned_by`](crate::Selection::owned_by).
    ///
    /// # Errors
    ///
    /// As [`index_field`](Self::index_field).
    pub fn index_owner_uids<K: TypedObject>(&self) -> Result<(), Error> {
        self.each::<K>(OWNER_UID, Informer::index_owner_uids)
    }

    /// Indexes the controlling owner of each object: see
    /// [`Selection::controlled_by`](crate::Selection::controlled_by).
    ///
    /// # Errors
    ///
    /// As [`index_field`](Self::index_field).
    pub fn index_controller_uid<K: TypedObject>(&self) -> Result<(), Error> {
        self.each::<K>(CONTROLLER_UID, Informer::index_controller_uid)
    }

    /// Indexes the value of one label, under the name of the label.
    ///
    /// # Errors
    ///
    /// As [`index_field`](Self::index_field).
    pub fn index_label<K: TypedObject>(&self, label: &str) -> Result<(), Error> {
        self.each::<K>(label, |informer| informer.index_label(label))
    }

    /// Indexes all labels, so that lists under a label selector cost the size of their answer.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn index_labels<K: TypedObject>(&self) -> Result<(), Error> {
        for informer in self.informers::<K>()? {
            informer.index_labels();
        }
        Ok(())
    }

    fn register<K: TypedObject>(&self, index: &FieldIndex<K>) -> Result<(), Error> {
        self.each::<K>(index.name(), |informer| {
            informer.add_index(index.name(), index.function())
        })
    }

    fn each<K: TypedObject>(
        &self,
        index: &str,
        add: impl Fn(&Informer<K>) -> Result<(), steersman_informer::Error>,
    ) -> Result<(), Error> {
        // CACHE-13: refused before the kind is declared, and before one of several informers has it.
        if index.is_empty() {
            return Err(Error::IndexWithoutName {
                kind: Kind::of::<K>(),
            });
        }
        let exists = || Error::IndexExists {
            kind: Kind::of::<K>(),
            index: index.to_owned(),
        };
        let informers = self.informers::<K>()?;
        let mut stores = informers.iter().map(Informer::as_store);
        if stores.any(|store| store.has_index(index)) {
            return Err(exists());
        }
        for informer in &informers {
            add(informer).map_err(|_| exists())?;
        }
        Ok(())
    }
}
