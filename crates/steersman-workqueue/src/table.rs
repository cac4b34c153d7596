//! Machine: the table of keys - each key once, under a small number while anything is known of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::index::{Found, Hash, Index, Tenant};
use crate::key::Key;
use crate::options::Priority;
use crate::order::{KEPT, Slot, Turn};
use crate::waiting::Appointment;

/// The keys and what is known of them. Slots of keys that left are used again.
pub(crate) struct Table<T> {
    index: Index,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<Slot>,
    // What stamps count from.
    began: Option<Instant>,
}

/// What is known of one key. It is small, for there is one for each key that waits.
pub(crate) struct Entry<T> {
    key: Stored<T>,
    hash: Hash,
    pub(crate) standing: Standing,
    // Never while ready. Few keys have one, so it is apart.
    pub(crate) due: Option<Box<Due>>,
    // When it last became ready or marked; stamped only with metrics.
    pub(crate) added: Stamp,
}

/// An instant in nanoseconds since the first one of the table: half as large.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stamp(u64);

/// A key is shared with tickets only once the first of them takes it: what waits is one piece.
enum Stored<T> {
    Own(T),
    Shared(Arc<T>),
    /// Between the two, while the one becomes the other.
    Moving,
}

/// Whether the key stands in a line or is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Neither,
    /// The key stands in a line.
    Ready {
        priority: Priority,
        turn: Turn,
    },
    /// A ticket holds the key; `place` is where the list of held keys has it.
    Held {
        priority: Priority,
        place: u32,
    },
}

/// The key waits for a deadline; with `backoff`, because it failed, be the deadline that of the
/// failure or an earlier one.
pub(crate) struct Due {
    pub(crate) at: Appointment,
    pub(crate) priority: Priority,
    pub(crate) backoff: bool,
}

// === impl Table ===

impl<T: Key> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            index: Index::new(),
            entries: Vec::new(),
            free: Vec::new(),
            began: None,
        }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry<T>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// Notes when a key became ready or marked.
    pub(crate) fn stamp(&mut self, slot: Slot, now: Instant) {
        let began = *self.began.get_or_insert(now);
        if let Some(entry) = self.get_mut(slot) {
            // Enough for centuries.
            let nanos = now.saturating_duration_since(began).as_nanos();
            entry.added = Stamp(nanos as u64);
        }
    }

    /// How long that was ago.
    pub(crate) fn time_since(&self, added: Stamp, now: Instant) -> Duration {
        let began = self.began.unwrap_or(now);
        let since = now.saturating_duration_since(began);
        since.saturating_sub(Duration::from_nanos(added.0))
    }

    /// Every slot that was ever used.
    pub(crate) fn slots(&self) -> Range<Slot> {
        // Slots are made by `slot_of` alone, which counts them in this type.
        0..self.entries.len() as Slot
    }

    /// Of how many keys something is known.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether the key in `slot` stands in a line since `turn`.
    pub(crate) fn is_ready(&self, turn: Turn, slot: Slot) -> bool {
        let standing = self.get(slot).map(|entry| entry.standing);
        matches!(standing, Some(Standing::Ready { turn: since, .. }) if since == turn)
    }

    /// Makes ready for `slot_of` of keys of these hashes.
    pub(crate) fn expect(&mut self, hashes: impl ExactSizeIterator<Item = Hash>) {
        let entries = &self.entries;
        let live = self.len();
        self.index.reserve(hashes.len(), live, |hash, slot| {
            let entry = entries.get(slot as usize).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.hash == hash)
        });
        self.index.approach(hashes);
    }

    /// The slot of `key`, a new one where it has none. Its hash has to be expected.
    pub(crate) fn slot_of(&mut self, key: T, hash: Hash) -> Slot {
        let entries = &self.entries;
        let entry_in = |slot: Slot| entries.get(slot as usize).and_then(Option::as_ref);
        let tenant = |slot| match entry_in(slot) {
            Some(entry) if entry.key() == Some(&key) => Tenant::Sought,
            Some(entry) if entry.hash == hash => Tenant::Stranger,
            _ => Tenant::Gone,
        };
        let vacancy = match self.index.find(hash, tenant) {
            Found::Here(slot) => return slot,
            Found::Nowhere(vacancy) => vacancy,
        };
        let fresh = Some(Entry {
            key: Stored::Own(key),
            hash,
            standing: Standing::Neither,
            due: None,
            added: Stamp::default(),
        });
        let slot = if let Some(slot) = self.free.pop() {
            self.entries[slot as usize] = fresh;
            slot
        } else {
            self.entries.push(fresh);
            (self.entries.len() - 1) as Slot
        };
        self.index.fill(vacancy, hash, slot);
        slot
    }

    /// Removes the key of `slot` unless it is ready, delayed or held.
    pub(crate) fn free_unless_used(&mut self, slot: Slot) {
        let Some(place) = self.entries.get_mut(slot as usize) else {
            return;
        };
        if let Some(entry) = place
            && entry.standing == Standing::Neither
            && entry.due.is_none()
        {
            *place = None;
            self.free.push(slot);
            if self.len() == 0 && self.entries.len() > KEPT {
                self.index = Index::new();
                self.entries = Vec::new();
                self.free = Vec::new();
            }
        }
    }
}

// === impl Entry ===

impl<T> Entry<T> {
    /// The key, to look at.
    pub(crate) fn key(&self) -> Option<&T> {
        match &self.key {
            Stored::Own(key) => Some(key),
            Stored::Shared(key) => Some(key),
            Stored::Moving => None,
        }
    }

    /// The key, for a ticket.
    pub(crate) fn share(&mut self) -> Option<Arc<T>> {
        let shared = match std::mem::replace(&mut self.key, Stored::Moving) {
            Stored::Own(key) => Arc::new(key),
            Stored::Shared(key) => key,
            Stored::Moving => return None,
        };
        self.key = Stored::Shared(Arc::clone(&shared));
        Some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Hashes;

    #[test]
    fn an_entry_is_small_and_an_empty_table_gives_its_memory_back() {
        assert!(size_of::<Option<Entry<(String, String)>>>() <= 88);
        let mut table = Table::new();
        let hashes = Hashes::default();
        let add = |key: u32| {
            let hash = hashes.of(&key);
            table.expect(std::iter::once(hash));
            table.slot_of(key, hash)
        };
        let slots: Vec<Slot> = (0..5_000).map(add).collect();
        assert_eq!(table.len(), 5_000);
        for slot in slots {
            table.free_unless_used(slot);
        }
        assert_eq!(table.len(), 0);
        assert_eq!(table.entries.capacity() + table.free.capacity(), 0);
    }
}
