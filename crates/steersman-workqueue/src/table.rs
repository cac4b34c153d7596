//! Machine: the table of keys - each key once, under a small number while anything is known of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::key::Key;
use crate::options::Priority;
use crate::order::{Slot, Turn};
use crate::waiting::Appointment;

/// The keys and what is known of them. Slots of keys that left are used again.
pub(crate) struct Table<T> {
    by_key: HashMap<Arc<T>, Slot>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<Slot>,
}

/// What is known of one key.
pub(crate) struct Entry<T> {
    pub(crate) key: Arc<T>,
    pub(crate) ready: Option<Ready>,
    pub(crate) due: Option<Due>,
    pub(crate) held: Option<Held>,
    // Only while held: an add came meanwhile (WQ-2). A marked key has no deadline, for the add
    // absorbed what there was, and the run to come absorbs what follows; unless the mark keeps a
    // backoff, for then the deadline may be what the key is left with (WQ-4).
    pub(crate) again: Option<Again>,
    // When it last became ready or marked; measured only with metrics.
    pub(crate) added: Instant,
}

/// The key stands in a line.
pub(crate) struct Ready {
    pub(crate) priority: Priority,
    pub(crate) turn: Turn,
}

/// The key waits for a deadline; with `backoff`, because it failed, be the deadline that of the
/// failure or an earlier one.
pub(crate) struct Due {
    pub(crate) at: Appointment,
    pub(crate) priority: Priority,
    pub(crate) backoff: bool,
}

/// A ticket holds the key; `place` is where the list of held keys has it.
pub(crate) struct Held {
    pub(crate) priority: Priority,
    pub(crate) since: Instant,
    pub(crate) place: usize,
}

/// What an add left behind that came while the key was held.
pub(crate) struct Again {
    pub(crate) priority: Priority,
    pub(crate) keep_backoff: bool,
}

// === impl Table ===

impl<T: Key> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            by_key: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry<T>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// Every slot that was ever used.
    pub(crate) fn slots(&self) -> Range<Slot> {
        // Slots are made by `slot_of` alone, which counts them in this type.
        0..self.entries.len() as Slot
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Whether the key in `slot` stands in a line since `turn`.
    pub(crate) fn is_ready(&self, turn: Turn, slot: Slot) -> bool {
        self.get(slot)
            .and_then(|entry| entry.ready.as_ref())
            .is_some_and(|ready| ready.turn == turn)
    }

    /// The slot of `key`, a new one where it has none.
    pub(crate) fn slot_of(&mut self, key: T, now: Instant) -> Slot {
        match self.by_key.entry(Arc::new(key)) {
            MapEntry::Occupied(present) => *present.get(),
            MapEntry::Vacant(vacant) => {
                let fresh = Some(Entry {
                    key: Arc::clone(vacant.key()),
                    ready: None,
                    due: None,
                    held: None,
                    again: None,
                    added: now,
                });
                let slot = if let Some(slot) = self.free.pop() {
                    self.entries[slot as usize] = fresh;
                    slot
                } else {
                    self.entries.push(fresh);
                    (self.entries.len() - 1) as Slot
                };
                *vacant.insert(slot)
            }
        }
    }

    /// Removes the key of `slot` unless it is ready, delayed or held.
    pub(crate) fn free_unless_used(&mut self, slot: Slot) {
        let Some(place) = self.entries.get_mut(slot as usize) else {
            return;
        };
        if let Some(entry) = place
            && entry.ready.is_none()
            && entry.due.is_none()
            && entry.held.is_none()
        {
            self.by_key.remove(&entry.key);
            *place = None;
            self.free.push(slot);
        }
    }
}
