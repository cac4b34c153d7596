//! Machine: a pool in which objects share equal values, each kept as long as an object uses it.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

/// The number of unused values that a pool may hold in any case, so that a small pool is not swept after each change.
const FEW: usize = 64;

/// Shares equal values, such as the labels and owners of the Pods of one ReplicaSet.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    held: HashTable<Arc<T>>,
    hasher: DefaultHashBuilder,
    /// The number of values in use after the last sweep.
    used: usize,
    /// The largest number of objects since the last sweep.
    objects: usize,
}

impl<T: Eq + Hash> Interner<T> {
    pub(crate) fn share(&mut self, value: T) -> Arc<T> {
        let Self { held, hasher, .. } = self;
        let hash = hasher.hash_one(&value);
        let known = held.entry(hash, |other| **other == value, |it| hasher.hash_one(&**it));
        match known {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(vacant) => Arc::clone(vacant.insert(Arc::new(value)).get()),
        }
    }

    /// Drops unused values if they may be more than half of the pool. `objects` is the number of objects in the store.
    /// The cost of a sweep is amortised over the objects that were added or removed (POOL-1).
    pub(crate) fn sweep(&mut self, objects: usize) {
        self.objects = self.objects.max(objects);
        // Waiting events may still use values of removed objects. So the values of the last sweep count as used until
        // most objects, and enough of them to pay for a sweep, are removed.
        let gone = self.objects - objects;
        let used = if 2 * gone > self.objects && 4 * gone >= self.held.len() {
            objects
        } else {
            objects.max(self.used)
        };
        if self.held.len() <= FEW + 2 * used {
            return;
        }
        self.objects = objects;
        // The pool is borrowed exclusively, so a value with one reference cannot come into use meanwhile.
        self.held.retain(|value| Arc::strong_count(value) > 1);
        self.used = self.held.len();
        let hasher = &self.hasher;
        self.held
            .shrink_to(2 * self.used, |value| hasher.hash_one(&**value));
    }
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            held: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            used: 0,
            objects: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // POOL-1
    #[test]
    fn pool_1_equal_values_are_shared_and_unused_ones_are_dropped() {
        let mut interner = Interner::default();
        let all: Vec<Arc<usize>> = (0..1000).map(|number| interner.share(number)).collect();
        assert!(Arc::ptr_eq(&all[7], &interner.share(7)));
        interner.sweep(1000);
        assert_eq!(interner.held.len(), 1000);
        let (kept, gone) = all.split_at(100);
        let (kept, gone) = (kept.to_vec(), gone.len());
        drop(all);
        // Half of the values may belong to objects that still exist.
        interner.sweep(1000 - gone / 2);
        assert_eq!(interner.held.len(), 1000);
        interner.sweep(100);
        assert_eq!(interner.held.len(), 100);
        assert!(Arc::ptr_eq(&kept[7], &interner.share(7)));
    }

    // POOL-1
    #[test]
    fn pool_1_values_are_dropped_with_their_objects_even_if_many_were_in_use_before() {
        let mut interner = Interner::default();
        let mut all: Vec<Arc<usize>> = (0..1000).map(|number| interner.share(number)).collect();
        for more in 0..1100 {
            drop(interner.share(5000 + more));
        }
        interner.sweep(1000);
        assert_eq!(interner.held.len(), 1000);
        // The number of objects is halved again and again: the removed objects pay for each sweep.
        while all.len() > 1 {
            all.truncate(all.len() / 2);
            interner.sweep(all.len());
            assert!(
                interner.held.len() <= FEW + 4 * all.len() + 2,
                "{}",
                interner.held.len()
            );
        }
        all.clear();
        interner.sweep(0);
        assert!(interner.held.len() <= FEW, "{}", interner.held.len());
    }

    // POOL-1
    #[test]
    fn pool_1_values_in_use_without_an_object_do_not_cause_a_sweep_each_time() {
        let mut interner = Interner::default();
        let used: Vec<Arc<usize>> = (0..1000).map(|number| interner.share(number)).collect();
        interner.sweep(0);
        drop(used);
        for more in 0..1000 {
            drop(interner.share(5000 + more));
            interner.sweep(0);
        }
        assert_eq!(interner.held.len(), 2000);
        for more in 0..100 {
            drop(interner.share(9000 + more));
            interner.sweep(0);
        }
        assert!(interner.held.len() < 100, "{}", interner.held.len());
    }
}
