//! Machine: one entry per kind and namespace, made once and started once.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_object::Gvk;

/// Names an entry: a kind, and the namespace its informer looks at (`None`: all of them).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) gvk: Gvk,
    pub(crate) namespace: Option<Arc<str>>,
}

/// Where the cache is in its life. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing runs yet.
    Declaring,
    /// Entries start as they are made.
    Running,
    /// Nothing starts any more.
    Stopped,
}

/// The entries of one kind.
type Places<E> = BTreeMap<Option<Arc<str>>, E>;

/// All entries, and those that wait to be started.
#[derive(Debug)]
pub(crate) struct Registry<E> {
    entries: BTreeMap<Gvk, Places<E>>,
    to_start: Vec<Slot>,
    phase: Phase,
}

impl<E: Clone> Registry<E> {
    pub(crate) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            to_start: Vec::new(),
            phase: Phase::Declaring,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The entry of a slot, if there is one.
    pub(crate) fn get(&self, slot: &Slot) -> Option<E> {
        self.at(&slot.gvk, &slot.namespace).cloned()
    }

    /// As [`get`](Self::get), for those who read: nothing is put together for it.
    pub(crate) fn at(&self, gvk: &Gvk, namespace: &Option<Arc<str>>) -> Option<&E> {
        self.entries.get(gvk)?.get(namespace)
    }

    /// The entry of a slot, made by `make` if nobody was there before. Says whether it is new.
    ///
    /// CACHE-1: whoever comes later, from whatever task, gets the entry of whoever came first.
    pub(crate) fn declare(&mut self, slot: Slot, make: impl FnOnce() -> E) -> (E, bool) {
        if let Some(entry) = self.get(&slot) {
            return (entry, false);
        }
        let entry = make();
        let places = self.entries.entry(slot.gvk.clone()).or_default();
        places.insert(slot.namespace.clone(), entry.clone());
        self.to_start.push(slot);
        (entry, true)
    }

    /// Forgets the entries of a kind, and hands them out. Those that waited to be started are not.
    ///
    /// CACHE-7: whoever comes later makes a new one, which is started once.
    pub(crate) fn remove(&mut self, gvk: &Gvk) -> Vec<E> {
        self.to_start.retain(|slot| slot.gvk != *gvk);
        let removed = self.entries.remove(gvk).unwrap_or_default();
        removed.into_values().collect()
    }

    /// Forgets the entry of a slot where it `may` be, and hands it out.
    pub(crate) fn remove_if(&mut self, slot: &Slot, may: impl FnOnce(&E) -> bool) -> Option<E> {
        let places = self.entries.get_mut(&slot.gvk)?;
        places.get(&slot.namespace).filter(|entry| may(entry))?;
        self.to_start.retain(|waiting| waiting != slot);
        places.remove(&slot.namespace)
    }

    /// Begins to run; false when it ran before.
    pub(crate) fn start(&mut self) -> bool {
        let first = self.phase == Phase::Declaring;
        if first {
            self.phase = Phase::Running;
        }
        first
    }

    /// The entries that have not been started, each handed out once; none unless running.
    pub(crate) fn take_unstarted(&mut self) -> Vec<E> {
        if self.phase != Phase::Running {
            return Vec::new();
        }
        let slots = std::mem::take(&mut self.to_start);
        slots.iter().filter_map(|slot| self.get(slot)).collect()
    }

    /// Starts nothing more.
    pub(crate) fn stop(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// Every entry with its slot, in order of kind and namespace.
    pub(crate) fn slots(&self) -> Vec<(Slot, E)> {
        let kinds = self.entries.iter();
        let slots = kinds.flat_map(|(gvk, places)| {
            places.iter().map(|(namespace, entry)| {
                let (gvk, namespace) = (gvk.clone(), namespace.clone());
                (Slot { gvk, namespace }, entry.clone())
            })
        });
        slots.collect()
    }

    /// Every entry, in order of kind and namespace.
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

    fn slot(kind: &str, namespace: Option<&str>) -> Slot {
        Slot {
            gvk: Gvk::new("", "v1", kind),
            namespace: namespace.map(Into::into),
        }
    }

    /// CACHE-1
    #[test]
    fn a_slot_is_made_once_and_started_once() {
        let mut registry = Registry::new();
        assert_eq!(registry.declare(slot("Pod", None), || 1), (1, true));
        assert_eq!(registry.declare(slot("Pod", None), || 2), (1, false));
        assert!(
            registry.take_unstarted().is_empty(),
            "declaring starts nothing"
        );
        assert!(registry.start());
        assert!(!registry.start(), "a second start is refused");
        assert_eq!(registry.take_unstarted(), [1]);
        assert_eq!(registry.declare(slot("Pod", Some("a")), || 3), (3, true));
        assert_eq!(registry.declare(slot("Pod", Some("a")), || 4), (3, false));
        assert_eq!(registry.take_unstarted(), [3]);
        assert!(registry.take_unstarted().is_empty());
        assert_eq!(registry.entries(), [1, 3]);
    }

    /// CACHE-7
    #[test]
    fn what_is_removed_is_made_anew_and_started_once() {
        let mut registry = Registry::new();
        registry.declare(slot("Pod", None), || 1);
        registry.declare(slot("Pod", Some("a")), || 2);
        registry.declare(slot("Node", None), || 3);
        assert_eq!(registry.remove(&Gvk::new("", "v1", "Pod")), [1, 2]);
        assert_eq!(registry.declare(slot("Pod", None), || 4), (4, true));
        registry.start();
        assert_eq!(registry.take_unstarted(), [3, 4]);
        assert!(registry.remove(&Gvk::new("", "v1", "Secret")).is_empty());
    }

    /// CACHE-8
    #[test]
    fn one_is_removed_only_where_it_may_be_and_made_anew_then() {
        let mut registry = Registry::new();
        registry.declare(slot("Pod", None), || 1);
        registry.declare(slot("Pod", Some("a")), || 2);
        assert_eq!(registry.remove_if(&slot("Pod", None), |_| false), None);
        assert_eq!(registry.remove_if(&slot("Node", None), |_| true), None);
        assert_eq!(registry.remove_if(&slot("Pod", None), |e| *e == 1), Some(1));
        assert_eq!(registry.declare(slot("Pod", None), || 3), (3, true));
        registry.start();
        assert_eq!(registry.take_unstarted(), [2, 3]);
    }

    #[test]
    fn nothing_starts_after_the_stop() {
        let mut registry = Registry::new();
        registry.start();
        registry.stop();
        registry.declare(slot("Pod", None), || 1);
        assert!(registry.take_unstarted().is_empty());
        assert!(!registry.start());
        assert_eq!(registry.phase(), Phase::Stopped);
    }
}
