//! Handle: the namespaces of a cache, which may change while it runs, and the informers that each kind gets there.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use steersman_api::kube_client::core::DynamicObject;
use steersman_object::{Gvk, Kind, ObjectKey, TypedObject};
use tokio::sync::watch;

use super::{Purpose, SharedCache};
use crate::coverage::Coverage;
use crate::error::Error;
use crate::informer_entry::InformerEntry;
use crate::options::{CacheOptions, Namespaces};
use crate::settings::Settings;
use crate::type_map::ByType;

/// The namespaces of a cache, and for each kind the informers that it gets there (its coverage).
///
/// The order of locks: `typed` before the registry, and the registry before `namespaces`, `coverages` and `indexes`.
#[derive(Default)]
pub(crate) struct Scope {
    /// The default namespaces with their settings. They may change while the cache runs (CACHE-17).
    namespaces: RwLock<Namespaces>,
    coverages: Mutex<HashMap<Gvk, Arc<Coverage>>>,
    /// The coverages (which informers a kind gets) by Rust type, so that a read need not build the name of its kind.
    pub(crate) typed: RwLock<ByType<Arc<Coverage>>>,
    changes: AtomicU64,
    /// The number of changes of the namespaces, for tasks that wait for a change; sent after the informers have
    /// changed.
    pub(crate) changed: watch::Sender<u64>,
    /// Locked during a change of the namespaces, and while an index is added, so that no new informer misses an index.
    changing: Mutex<()>,
    pub(crate) indexes: Mutex<HashMap<Gvk, BTreeMap<IndexName, AddIndex>>>,
}

/// The name of an index; `None` for the index of all labels.
pub(crate) type IndexName = Option<String>;

pub(crate) type AddIndex = Arc<dyn Fn(&InformerEntry) + Send + Sync>;

impl Scope {
    pub(crate) fn new(options: &CacheOptions) -> Self {
        Self {
            namespaces: RwLock::new(options.namespaces.clone()),
            ..Self::default()
        }
    }

    /// Returns the number of changes of the namespaces. A coverage that was read before a change is outdated.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Keeps the namespaces as they are until the guard is dropped.
    pub(crate) fn freeze(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Records an index of a kind, for the informers that the kind gets later in further namespaces.
    pub(crate) fn add_index(&self, gvk: Gvk, name: IndexName, add: AddIndex) {
        let mut indexes = self.indexes.lock();
        indexes.entry(gvk).or_default().insert(name, add);
    }

    /// Adds the recorded indexes of its kind to a new informer.
    pub(crate) fn index(&self, entry: &InformerEntry) {
        let known = self.indexes.lock().get(entry.kind().gvk()).cloned();
        for add in known.into_iter().flat_map(BTreeMap::into_values) {
            add(entry);
        }
    }

    fn refresh(&self, options: &CacheOptions) {
        {
            let mut coverages = self.coverages.lock();
            let namespaces = self.namespaces.read();
            for coverage in coverages.values_mut() {
                let kind = coverage.kind().clone();
                *coverage = Arc::new(Coverage::of(&kind, options, &namespaces));
            }
        }
        let mut typed = self.typed.write();
        let coverages = self.coverages.lock();
        for coverage in typed.values_mut() {
            if let Some(fresh) = coverages.get(coverage.kind().gvk()) {
                *coverage = Arc::clone(fresh);
            }
        }
        drop((coverages, typed));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl SharedCache {
    pub(crate) fn coverage(&self, kind: &Kind) -> Arc<Coverage> {
        let mut coverages = self.scope.coverages.lock();
        if let Some(coverage) = coverages.get(kind.gvk()) {
            return Arc::clone(coverage);
        }
        let namespaces = self.scope.namespaces.read();
        let coverage = Arc::new(Coverage::of(kind, &self.options, &namespaces));
        coverages.insert(kind.gvk().clone(), Arc::clone(&coverage));
        coverage
    }

    /// Returns which informers a kind gets, if that was computed before.
    pub(crate) fn known(&self, gvk: &Gvk) -> Option<Arc<Coverage>> {
        self.scope.coverages.lock().get(gvk).cloned()
    }

    /// Returns which informers the kind of a Rust type gets.
    pub(crate) fn coverage_of<K: TypedObject>(&self) -> Arc<Coverage> {
        if let Some(coverage) = self.scope.typed.read().get(&TypeId::of::<K>()) {
            return Arc::clone(coverage);
        }
        // The coverage is computed under the lock, so that a change of the namespaces finds and updates it.
        let mut typed = self.scope.typed.write();
        let coverage = self.coverage(&Kind::of::<K>());
        typed.insert(TypeId::of::<K>(), Arc::clone(&coverage));
        coverage
    }

    /// Returns the default namespaces; `None` if all namespaces are cached.
    pub(crate) fn default_namespaces(&self) -> Option<Vec<String>> {
        let namespaces = self.scope.namespaces.read();
        let is_limited = !namespaces.named.is_empty() && namespaces.others.is_none();
        let names = namespaces.named.iter().map(|(name, _)| name.clone());
        is_limited.then(|| names.collect())
    }

    /// CACHE-17: adds a default namespace, and starts the informers of declared kinds there.
    pub(crate) fn add_namespace(&self, namespace: &str, settings: Settings) -> Result<bool, Error> {
        let _changing = self.scope.freeze();
        let present = self.limited_namespaces(namespace)?;
        if namespace.is_empty() {
            return Err(scope_error(namespace, "the name is empty"));
        }
        if present.iter().any(|name| name == namespace) {
            return Ok(false);
        }
        self.scope
            .namespaces
            .write()
            .name(namespace.to_owned(), settings);
        self.scope.refresh(&self.options);
        let entries = self.registry.read().entries();
        let mut kinds: BTreeMap<Kind, bool> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.is_permanent()) {
            let is_whole = kinds.entry(entry.kind().clone()).or_default();
            *is_whole |= !entry.untyped().is_metadata_only();
        }
        for (kind, is_whole) in kinds {
            // `need` is called before the informer starts, so that it requests whole objects from the start where
            // needed.
            let need = |entry: &InformerEntry| {
                if is_whole {
                    entry.untyped().need::<DynamicObject>();
                }
            };
            for place in self.coverage(&kind).informers() {
                if place.as_deref() == Some(namespace) {
                    self.entry(&kind, place, Purpose::Declare, need)?;
                }
            }
        }
        self.notify_of_scope();
        Ok(true)
    }

    /// CACHE-17: removes a default namespace with its informers.
    pub(crate) fn remove_namespace(&self, namespace: &str) -> Result<bool, Error> {
        let _changing = self.scope.freeze();
        let present = self.limited_namespaces(namespace)?;
        if !present.iter().any(|name| name == namespace) {
            return Ok(false);
        }
        if present.len() == 1 {
            let problem =
                "it is the last one, and a cache without a named namespace holds all of them";
            return Err(scope_error(namespace, problem));
        }
        let is_other = |(name, _): &(String, Settings)| name != namespace;
        self.scope.namespaces.write().named.retain(is_other);
        // The kinds lose the namespace before its informers end, so that no read starts one of them again.
        self.scope.refresh(&self.options);
        let in_namespace = self.registry.read().keyed_entries().into_iter();
        let in_namespace =
            in_namespace.filter(|(key, _)| key.namespace.as_deref() == Some(namespace));
        for (key, entry) in in_namespace {
            let coverage = self.coverage(entry.kind());
            let is_covered = coverage.settings(Some(namespace)).is_some();
            if !is_covered && self.registry.write().remove_if(&key, |_| true).is_some() {
                // The informer is ended outside the lock of the registry, because its end notifies subscribers.
                entry.leave_scope();
            }
        }
        self.notify_of_scope();
        Ok(true)
    }

    /// Returns an error for an informer of a namespace that was removed after the caller read the namespaces.
    pub(crate) fn covered(coverage: &Coverage, namespace: Option<&Arc<str>>) -> Result<(), Error> {
        match namespace {
            Some(namespace) if coverage.settings(Some(namespace)).is_none() => {
                let somewhere = ObjectKey::namespaced(&**namespace, "");
                coverage.informer_for(&somewhere).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Turns the error of a namespace that was removed during a read of all namespaces into `None` (CACHE-17). `asked`
    /// is the namespace that the read selects.
    pub(crate) fn unless_left<T>(
        &self,
        kind: &Kind,
        asked: Option<&str>,
        namespace: &Option<Arc<str>>,
        read: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let has_left = || self.coverage(kind).settings(namespace.as_deref()).is_none();
        match read {
            Err(_) if asked.is_none() && has_left() => Ok(None),
            read => read.map(Some),
        }
    }

    fn limited_namespaces(&self, namespace: &str) -> Result<Vec<String>, Error> {
        self.default_namespaces().ok_or_else(|| {
            scope_error(
                namespace,
                "the cache holds all namespaces: name the first ones with `default_namespaces`",
            )
        })
    }

    fn notify_of_scope(&self) {
        self.scope.changed.send_replace(self.scope.changes());
    }
}

fn scope_error(namespace: &str, problem: &str) -> Error {
    Error::Scope {
        namespace: namespace.to_owned(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// CACHE-17: the caller reads the coverage before the namespace is removed.
    #[test]
    fn a_declaration_in_a_removed_namespace_is_refused() {
        let shared = SharedCache::new(CacheOptions::new().default_namespaces(["a", "b"]));
        let kind = Kind::of::<ConfigMap>();
        let declare =
            || shared.namespaced_informer::<ConfigMap>(&kind, Some("b".into()), Purpose::Declare);
        assert!(declare().is_ok());
        assert!(shared.remove_namespace("b").unwrap());
        assert!(declare().err().unwrap().is_outside_scope());
        assert!(shared.registry.read().entries().is_empty());
    }
}
