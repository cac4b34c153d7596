//! Machine: what many objects have in common is held once, and goes with the last of them.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

/// So few are not worth a look.
const FEW: usize = 64;

/// Equal values, shared. Those of one ReplicaSet's Pods have the same labels and owners.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    held: HashTable<Arc<T>>,
    hasher: DefaultHashBuilder,
    /// How many were in use when it was last swept.
    used: usize,
    /// How many objects there were at most since.
    objects: usize,
}

impl<T: Eq + Hash> Interner<T> {
    /// The value, shared with those who have an equal one.
    pub(crate) fn share(&mut self, value: T) -> Arc<T> {
        let Self { held, hasher, .. } = self;
        let hash = hasher.hash_one(&value);
        let known = held.entry(hash, |other| **other == value, |it| hasher.hash_one(&**it));
        match known {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(vacant) => Arc::clone(vacant.insert(Arc::new(value)).get()),
        }
    }

    /// Lets go of what nobody uses any more, where that may be half of it: there are so many objects.
    /// What is gone is freed, then, and looking for it costs each object that comes or goes little
    /// (POOL-1).
    pub(crate) fn sweep(&mut self, objects: usize) {
        self.objects = self.objects.max(objects);
        // What was in use may still be, by events, though its objects are gone. Where most of these went
        // since, and enough to pay for a look, it is time to see.
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
        // Who holds the pool is the only one who could begin to use it.
        self.held.retain(|value| Arc::strong_count(value) > 1);
        self.used = self.held.len();
        let hasher = &self.hasher;
        self.held
            .shrink_to(2 * self.used, |value| hasher.hash_one(&**value));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.held.len()
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
    fn pool_1_equal_values_are_one_and_what_nobody_uses_is_let_go_of() {
        let mut interner = Interner::default();
        let all: Vec<Arc<usize>> = (0..1000).map(|number| interner.share(number)).collect();
        assert!(Arc::ptr_eq(&all[7], &interner.share(7)));
        interner.sweep(1000);
        assert_eq!(interner.len(), 1000);
        let (kept, gone) = all.split_at(100);
        let (kept, gone) = (kept.to_vec(), gone.len());
        drop(all);
        // Half of them may be of objects that are there.
        interner.sweep(1000 - gone / 2);
        assert_eq!(interner.len(), 1000);
        interner.sweep(100);
        assert_eq!(interner.len(), 100);
        assert!(Arc::ptr_eq(&kept[7], &interner.share(7)));
    }

    // POOL-1
    #[test]
    fn pool_1_what_objects_had_goes_with_them_however_much_was_in_use_before() {
        let mut interner = Interner::default();
        let mut all: Vec<Arc<usize>> = (0..1000).map(|number| interner.share(number)).collect();
        for more in 0..1100 {
            drop(interner.share(5000 + more));
        }
        interner.sweep(1000);
        assert_eq!(interner.len(), 1000);
        // Half of them, and half of these: each sweep is paid for by as many that went.
        while all.len() > 1 {
            all.truncate(all.len() / 2);
            interner.sweep(all.len());
            assert!(
                interner.len() <= FEW + 4 * all.len() + 2,
                "{}",
                interner.len()
            );
        }
        all.clear();
        interner.sweep(0);
        assert!(interner.len() <= FEW, "{}", interner.len());
    }

    // POOL-1
    #[test]
    fn pool_1_what_is_used_without_an_object_is_not_looked_at_each_time() {
        let mut interner = Interner::default();
        let used: Vec<Arc<usize>> = (0..1000).map(|number| interner.share(number)).collect();
        interner.sweep(0);
        drop(used);
        for more in 0..1000 {
            drop(interner.share(5000 + more));
            interner.sweep(0);
        }
        assert_eq!(interner.len(), 2000);
        for more in 0..100 {
            drop(interner.share(9000 + more));
            interner.sweep(0);
        }
        assert!(interner.len() < 100, "{}", interner.len());
    }
}
