//! Machine: a hash index from keys to their slots in the table.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::key::Key;
use crate::ready::KeySlot;

/// The upper 32 bits of a key's hash. Only a few of a million keys share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(u32);

/// The hash function of one queue, with its own random seed.
#[derive(Clone, Default)]
pub(crate) struct Hashes(RandomState);

/// An open-addressing hash table of slots with linear probing. Its buckets are in the order of the hashes.
///
/// The index is searched once when a key arrives, and not at all when a key is removed: the closure `is_live` detects
/// the bucket of a removed key, which a key with the same hash reuses, or which is dropped when the table grows. So
/// each key costs one random memory access. The order of the buckets lets a growing table be copied from front to back.
#[derive(Debug)]
pub(crate) struct SlotIndex {
    // The buckets; their number is zero or a power of two.
    buckets: Vec<IndexBucket>,
    // The number of used buckets: at most three in four, so that every search ends at an empty bucket.
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
struct IndexBucket {
    hash: Hash,
    slot: KeySlot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundSlot {
    Here(KeySlot),
    /// The key is not in the table; this bucket is free for it.
    Nowhere(Vacancy),
}

/// A free bucket for a key that is not in the table. Valid until the index changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vacancy {
    at: usize,
    is_empty: bool,
}

/// The result of comparing the key in a slot with the searched key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupant {
    Sought,
    /// The slot has another key with the same hash.
    Other,
    /// The slot has no key, or a key with another hash, so the bucket is stale.
    Gone,
}

const SMALLEST: usize = 16;

const EMPTY: IndexBucket = IndexBucket {
    hash: Hash(0),
    slot: KeySlot::MAX,
};

// === impl Hashes ===

impl Hashes {
    pub(crate) fn of<T: Key>(&self, key: &T) -> Hash {
        Hash((self.0.hash_one(key) >> 32) as u32)
    }
}

// === impl SlotIndex ===

impl SlotIndex {
    pub(crate) fn new() -> Self {
        Self {
            buckets: Vec::new(),
            taken: 0,
        }
    }

    /// Makes room for `more` keys besides `live` keys. `is_live` returns whether the key of a bucket is still in its
    /// slot. The new size follows the number of live keys, so the index can also shrink.
    pub(crate) fn reserve(
        &mut self,
        more: usize,
        live: usize,
        is_live: impl Fn(Hash, KeySlot) -> bool,
    ) {
        if (self.taken + more) * 4 <= self.buckets.len() * 3 {
            return;
        }
        let size = ((live + more) * 2).next_power_of_two().max(SMALLEST);
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; size]);
        let all_live = std::mem::take(&mut self.taken) == live;
        for bucket in old {
            if !bucket.is_empty() && (all_live || is_live(bucket.hash, bucket.slot)) {
                let at = self.first_empty(bucket.hash);
                self.buckets[at] = bucket;
                self.taken += 1;
            }
        }
    }

    /// Reads the first bucket of each coming search, so that the processor waits once for all cache misses.
    pub(crate) fn approach(&self, hashes: impl Iterator<Item = Hash>) {
        let begin = |hash| {
            self.buckets
                .get(self.home(hash))
                .map_or(0, |bucket| bucket.slot)
        };
        std::hint::black_box(hashes.fold(0, |all, hash| all ^ begin(hash)));
    }

    /// Searches a key. The index must have room for another key, because an empty bucket ends a search.
    pub(crate) fn find(&self, hash: Hash, occupant: impl Fn(KeySlot) -> Occupant) -> FoundSlot {
        let mut left = None;
        let mut at = self.home(hash);
        loop {
            let bucket = self.buckets[at];
            if bucket.is_empty() {
                return FoundSlot::Nowhere(left.unwrap_or(Vacancy { at, is_empty: true }));
            }
            if bucket.hash == hash {
                match occupant(bucket.slot) {
                    Occupant::Sought => return FoundSlot::Here(bucket.slot),
                    Occupant::Other => {}
                    Occupant::Gone => {
                        left.get_or_insert(Vacancy {
                            at,
                            is_empty: false,
                        });
                    }
                }
            }
            at = self.after(at);
        }
    }

    pub(crate) fn fill(&mut self, vacancy: Vacancy, hash: Hash, slot: KeySlot) {
        self.buckets[vacancy.at] = IndexBucket { hash, slot };
        self.taken += usize::from(vacancy.is_empty);
    }

    fn first_empty(&self, hash: Hash) -> usize {
        let mut at = self.home(hash);
        while !self.buckets[at].is_empty() {
            at = self.after(at);
        }
        at
    }

    // The high bits of the hash give the position of a key, so the position doubles with the size of the table.
    fn home(&self, hash: Hash) -> usize {
        ((u64::from(hash.0) * self.buckets.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }
}

// === impl IndexBucket ===

impl IndexBucket {
    fn is_empty(self) -> bool {
        self.slot == KeySlot::MAX
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Keys in slots, in place of the queue's table.
    struct Slots {
        hash_of: fn(u16) -> Hash,
        index: SlotIndex,
        keys: Vec<Option<u16>>,
        free: Vec<KeySlot>,
    }

    // Many keys share few hashes, some of them at the end of the table.
    fn crowded(key: u16) -> Hash {
        Hash(u32::MAX - u32::from(key % 61) * 0x0100_0000)
    }

    fn apart(key: u16) -> Hash {
        Hash(u32::from(key).wrapping_mul(0x9E37_79B9))
    }

    impl Slots {
        fn new(hash_of: fn(u16) -> Hash) -> Self {
            Self {
                hash_of,
                index: SlotIndex::new(),
                keys: Vec::new(),
                free: Vec::new(),
            }
        }

        fn slot_of(&mut self, key: u16) -> KeySlot {
            let hash_of = self.hash_of;
            let hash = hash_of(key);
            let keys = &self.keys;
            let hash_in = |slot: KeySlot| keys[slot as usize].map(hash_of);
            self.index
                .reserve(1, keys.len() - self.free.len(), |hash, slot| {
                    hash_in(slot) == Some(hash)
                });
            let occupant = |slot: KeySlot| match keys[slot as usize] {
                Some(there) if there == key => Occupant::Sought,
                Some(there) if hash_of(there) == hash => Occupant::Other,
                _ => Occupant::Gone,
            };
            match self.index.find(hash, occupant) {
                FoundSlot::Here(slot) => slot,
                FoundSlot::Nowhere(vacancy) => {
                    let slot = self.free.pop().unwrap_or(keys.len() as KeySlot);
                    self.keys
                        .resize(self.keys.len().max(slot as usize + 1), None);
                    self.keys[slot as usize] = Some(key);
                    self.index.fill(vacancy, hash, slot);
                    slot
                }
            }
        }

        fn leave(&mut self, slot: KeySlot) {
            self.keys[slot as usize] = None;
            self.free.push(slot);
        }

        fn taken(&self) -> usize {
            let buckets = self.index.buckets.iter();
            buckets.filter(|bucket| !bucket.is_empty()).count()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        #[test]
        fn every_key_is_found_where_it_is_and_nowhere_else(
            steps in prop::collection::vec((0_u16..200, any::<bool>()), 1..600)
        ) {
            let mut slots = Slots::new(crowded);
            let mut known: HashMap<u16, KeySlot> = HashMap::new();
            for (key, leaves) in steps {
                let slot = slots.slot_of(key);
                let expected = *known.entry(key).or_insert(slot);
                prop_assert_eq!(slot, expected);
                if leaves {
                    slots.leave(slot);
                    known.remove(&key);
                }
                prop_assert_eq!(slots.taken(), slots.index.taken);
                prop_assert!(slots.index.taken * 4 <= slots.index.buckets.len() * 3);
            }
        }
    }

    #[test]
    fn buckets_of_keys_that_left_are_reused() {
        let mut slots = Slots::new(apart);
        for round in 0..5_000 {
            for key in 0..4 {
                let slot = slots.slot_of(round * 4 + key);
                slots.leave(slot);
            }
        }
        assert_eq!(slots.index.buckets.len(), SMALLEST);
        for _ in 0..1_000 {
            let slot = slots.slot_of(7);
            slots.leave(slot);
        }
        let taken = slots.index.taken;
        let slot = slots.slot_of(7);
        slots.leave(slot);
        assert_eq!(
            slots.index.taken, taken,
            "a key that comes back has a bucket"
        );
    }

    #[test]
    fn an_index_that_was_large_shrinks() {
        let mut slots = Slots::new(apart);
        let large: Vec<KeySlot> = (0..3_000).map(|key| slots.slot_of(key)).collect();
        assert!(slots.index.buckets.len() >= 4096);
        for slot in large {
            slots.leave(slot);
        }
        for key in 0..=u16::MAX {
            let slot = slots.slot_of(key);
            slots.leave(slot);
        }
        assert_eq!(slots.index.buckets.len(), SMALLEST);
    }
}
