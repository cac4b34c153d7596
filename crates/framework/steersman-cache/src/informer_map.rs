//! Machine: one entry for each kind and namespace with an informer, created once and started once.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_object::Gvk;

/// Identifies an informer by its kind and namespace (`None`: all namespaces).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InformerKey {
    pub(crate) gvk: Gvk,
    pub(crate) namespace: Option<Arc<str>>,
}

/// The phase of a cache. The phases follow each other in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePhase {
    /// Informers are declared; no informer runs.
    Declaring,
    /// Informers run; an informer that is declared now starts at once.
    Running,
    /// The cache has stopped; no informer starts.
    Stopped,
}

type ByNamespace<E> = BTreeMap<Option<Arc<str>>, E>;

/// All informers by kind and namespace, and the keys of the informers that have not been started.
#[derive(Debug)]
pub(crate) struct InformerMap<E> {
    entries: BTreeMap<Gvk, ByNamespace<E>>,
    to_start: Vec<InformerKey>,
    pub(crate) phase: CachePhase,
}

impl<E: Clone> InformerMap<E> {
    pub(crate) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            to_start: Vec::new(),
            phase: CachePhase::Declaring,
        }
    }

    pub(crate) fn get(&self, informer_key: &InformerKey) -> Option<E> {
        self.at(&informer_key.gvk, &informer_key.namespace).cloned()
    }

    /// Returns the informer of a kind and namespace like [`get`](Self::get), without allocating a key.
    pub(crate) fn at(&self, gvk: &Gvk, namespace: &Option<Arc<str>>) -> Option<&E> {
        self.entries.get(gvk)?.get(namespace)
    }

    /// Returns the informer of a key, made by `make` if it does not exist, and whether it is new.
    ///
    /// CACHE-1: all callers from all tasks get the same informer.
    pub(crate) fn declare(
        &mut self,
        informer_key: InformerKey,
        make: impl FnOnce() -> E,
    ) -> (E, bool) {
        if let Some(entry) = self.get(&informer_key) {
            return (entry, false);
        }
        let entry = make();
        let places = self.entries.entry(informer_key.gvk.clone()).or_default();
        places.insert(informer_key.namespace.clone(), entry.clone());
        self.to_start.push(informer_key);
        (entry, true)
    }

    pub(crate) fn of_kind(&self, gvk: &Gvk) -> Vec<E> {
        let places = self.entries.get(gvk).into_iter();
        places.flat_map(BTreeMap::values).cloned().collect()
    }

    /// Removes and returns the informers of a kind. Those that were not started never start.
    ///
    /// CACHE-7: a later declaration creates a new informer, which starts once.
    pub(crate) fn remove(&mut self, gvk: &Gvk) -> Vec<E> {
        self.to_start
            .retain(|informer_key| informer_key.gvk != *gvk);
        let removed = self.entries.remove(gvk).unwrap_or_default();
        removed.into_values().collect()
    }

    /// Removes and returns the informer of a key if `may` returns true for it.
    pub(crate) fn remove_if(
        &mut self,
        informer_key: &InformerKey,
        may: impl FnOnce(&E) -> bool,
    ) -> Option<E> {
        let places = self.entries.get_mut(&informer_key.gvk)?;
        places
            .get(&informer_key.namespace)
            .filter(|entry| may(entry))?;
        self.to_start.retain(|waiting| waiting != informer_key);
        places.remove(&informer_key.namespace)
    }

    /// Enters [`CachePhase::Running`]; returns false if the cache was running before.
    pub(crate) fn start(&mut self) -> bool {
        let first = self.phase == CachePhase::Declaring;
        if first {
            self.phase = CachePhase::Running;
        }
        first
    }

    /// Returns every informer that has not been started, each once; empty unless the cache is running.
    pub(crate) fn take_unstarted(&mut self) -> Vec<E> {
        if self.phase != CachePhase::Running {
            return Vec::new();
        }
        let keys = std::mem::take(&mut self.to_start);
        keys.iter().filter_map(|key| self.get(key)).collect()
    }

    pub(crate) fn stop(&mut self) {
        self.phase = CachePhase::Stopped;
    }

    /// Returns every informer with its key, ordered by kind and namespace.
    pub(crate) fn keyed_entries(&self) -> Vec<(InformerKey, E)> {
        let kinds = self.entries.iter();
        let keyed_entries = kinds.flat_map(|(gvk, places)| {
            places.iter().map(|(namespace, entry)| {
                let (gvk, namespace) = (gvk.clone(), namespace.clone());
                (InformerKey { gvk, namespace }, entry.clone())
            })
        });
        keyed_entries.collect()
    }

    /// Returns every informer, ordered by kind and namespace.
    pub(crate) fn entries(&self) -> Vec<E> {
        self.entries
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn informer_key(kind: &str, namespace: Option<&str>) -> InformerKey {
        InformerKey {
            gvk: Gvk::new("", "v1", kind),
            namespace: namespace.map(Into::into),
        }
    }

    /// CACHE-1
    #[test]
    fn an_entry_is_created_once_and_started_once() {
        let mut registry = InformerMap::new();
        assert_eq!(registry.declare(informer_key("Pod", None), || 1), (1, true));
        assert_eq!(
            registry.declare(informer_key("Pod", None), || 2),
            (1, false)
        );
        assert!(
            registry.take_unstarted().is_empty(),
            "declaring starts nothing"
        );
        assert!(registry.start());
        assert!(!registry.start(), "a second start is refused");
        assert_eq!(registry.take_unstarted(), [1]);
        assert_eq!(
            registry.declare(informer_key("Pod", Some("a")), || 3),
            (3, true)
        );
        assert_eq!(
            registry.declare(informer_key("Pod", Some("a")), || 4),
            (3, false)
        );
        assert_eq!(registry.take_unstarted(), [3]);
        assert!(registry.take_unstarted().is_empty());
        assert_eq!(registry.entries(), [1, 3]);
    }

    /// CACHE-7
    #[test]
    fn a_removed_entry_is_created_again_and_started_once() {
        let mut registry = InformerMap::new();
        registry.declare(informer_key("Pod", None), || 1);
        registry.declare(informer_key("Pod", Some("a")), || 2);
        registry.declare(informer_key("Node", None), || 3);
        assert_eq!(registry.remove(&Gvk::new("", "v1", "Pod")), [1, 2]);
        assert_eq!(registry.declare(informer_key("Pod", None), || 4), (4, true));
        registry.start();
        assert_eq!(registry.take_unstarted(), [3, 4]);
        assert!(registry.remove(&Gvk::new("", "v1", "Secret")).is_empty());
    }

    /// CACHE-8
    #[test]
    fn a_conditional_removal_removes_only_if_its_condition_holds() {
        let mut registry = InformerMap::new();
        registry.declare(informer_key("Pod", None), || 1);
        registry.declare(informer_key("Pod", Some("a")), || 2);
        assert_eq!(
            registry.remove_if(&informer_key("Pod", None), |_| false),
            None
        );
        assert_eq!(
            registry.remove_if(&informer_key("Node", None), |_| true),
            None
        );
        assert_eq!(
            registry.remove_if(&informer_key("Pod", None), |e| *e == 1),
            Some(1)
        );
        assert_eq!(registry.declare(informer_key("Pod", None), || 3), (3, true));
        registry.start();
        assert_eq!(registry.take_unstarted(), [2, 3]);
    }

    #[test]
    fn no_entry_starts_after_the_stop() {
        let mut registry = InformerMap::new();
        registry.start();
        registry.stop();
        registry.declare(informer_key("Pod", None), || 1);
        assert!(registry.take_unstarted().is_empty());
        assert!(!registry.start());
        assert_eq!(registry.phase, CachePhase::Stopped);
    }
}
