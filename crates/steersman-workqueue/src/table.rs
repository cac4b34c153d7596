//! Machine: the table of keys - each key once, under a small number while anything is known of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::index::{Found, Hash, Index, Tenant};
use crate::key::Key;
use crate::options::Priority;
use crate::order::{KEPT, Slot, Turn};
use crate::waiting::Appointment;

/// So many slots are one page.
const PAGE: usize = 512;

/// The keys and what is known of them. Slots of keys that left are used again.
pub(crate) struct Table<T> {
    index: Index,
    pages: Vec<Page<T>>,
    // Slots that were ever used.
    slots: usize,
    free: Vec<Slot>,
    // A page without keys that is kept, as who comes next has a slot of it.
    spare: Option<usize>,
    // What stamps count from.
    began: Option<Instant>,
}

/// Some slots. A key stays in its slot as long as it is known, so what a crowd took is given back page by
/// page.
struct Page<T> {
    // None at all where no key is left.
    entries: Vec<Option<Entry<T>>>,
    used: usize,
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
            pages: Vec::new(),
            slots: 0,
            free: Vec::new(),
            spare: None,
            began: None,
        }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry<T>> {
        entry_in(&self.pages, slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<T>> {
        let page = self.pages.get_mut(slot as usize / PAGE)?;
        page.entries.get_mut(slot as usize % PAGE)?.as_mut()
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
        0..self.slots as Slot
    }

    /// Of how many keys something is known.
    pub(crate) fn len(&self) -> usize {
        self.slots - self.free.len()
    }

    /// Whether the key in `slot` stands in a line since `turn`.
    pub(crate) fn is_ready(&self, turn: Turn, slot: Slot) -> bool {
        let standing = self.get(slot).map(|entry| entry.standing);
        matches!(standing, Some(Standing::Ready { turn: since, .. }) if since == turn)
    }

    /// Makes ready for `slot_of` of keys of these hashes.
    pub(crate) fn expect(&mut self, hashes: impl ExactSizeIterator<Item = Hash>) {
        let pages = &self.pages;
        let live = self.len();
        self.index.reserve(hashes.len(), live, |hash, slot| {
            entry_in(pages, slot).is_some_and(|entry| entry.hash == hash)
        });
        self.index.approach(hashes);
    }

    /// The slot of `key`, a new one where it has none. Its hash has to be expected.
    pub(crate) fn slot_of(&mut self, key: T, hash: Hash) -> Slot {
        let pages = &self.pages;
        let tenant = |slot| match entry_in(pages, slot) {
            Some(entry) if entry.key() == Some(&key) => Tenant::Sought,
            Some(entry) if entry.hash == hash => Tenant::Stranger,
            _ => Tenant::Gone,
        };
        let vacancy = match self.index.find(hash, tenant) {
            Found::Here(slot) => return slot,
            Found::Nowhere(vacancy) => vacancy,
        };
        let slot = self.free.pop().unwrap_or(self.slots as Slot);
        self.put(
            slot as usize,
            Entry {
                key: Stored::Own(key),
                hash,
                standing: Standing::Neither,
                due: None,
                added: Stamp::default(),
            },
        );
        self.index.fill(vacancy, hash, slot);
        slot
    }

    fn put(&mut self, slot: usize, entry: Entry<T>) {
        let (number, place) = (slot / PAGE, slot % PAGE);
        let is_new = slot == self.slots;
        if is_new {
            self.slots += 1;
            if place == 0 {
                self.pages.push(Page {
                    entries: Vec::with_capacity(PAGE),
                    used: 0,
                });
            }
        }
        let page = &mut self.pages[number];
        if is_new && place == page.entries.len() {
            page.entries.push(Some(entry));
        } else {
            // It was given back meanwhile.
            if page.entries.is_empty() {
                page.entries.resize_with(PAGE, || None);
            }
            page.entries[place] = Some(entry);
        }
        page.used += 1;
        if self.spare == Some(number) {
            self.spare = None;
        }
    }

    /// Removes the key of `slot` unless it is ready, delayed or held.
    pub(crate) fn free_unless_used(&mut self, slot: Slot) {
        let number = slot as usize / PAGE;
        let Some(page) = self.pages.get_mut(number) else {
            return;
        };
        let Some(place) = page.entries.get_mut(slot as usize % PAGE) else {
            return;
        };
        let is_used = |entry: &Entry<T>| entry.standing != Standing::Neither || entry.due.is_some();
        if place.as_ref().is_none_or(is_used) {
            return;
        }
        *place = None;
        page.used -= 1;
        self.free.push(slot);
        if page.used == 0 && self.slots > KEPT {
            self.leave(number);
        }
    }

    // The last key of a page left.
    fn leave(&mut self, number: usize) {
        if self.len() == 0 {
            let began = self.began;
            *self = Self::new();
            self.began = began;
        } else if let Some(spare) = self.spare.replace(number) {
            self.pages[spare].entries = Vec::new();
        }
    }
}

fn entry_in<T>(pages: &[Page<T>], slot: Slot) -> Option<&Entry<T>> {
    let page = pages.get(slot as usize / PAGE)?;
    page.entries.get(slot as usize % PAGE)?.as_ref()
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
        assert_eq!(table.pages.capacity() + table.free.capacity(), 0);
    }

    #[test]
    fn who_stays_of_a_crowd_keeps_no_more_than_a_page_and_a_spare_one() {
        let mut table = Table::new();
        let hashes = Hashes::default();
        let add = |table: &mut Table<u32>, key: u32| {
            let hash = hashes.of(&key);
            table.expect(std::iter::once(hash));
            table.slot_of(key, hash)
        };
        let slots: Vec<Slot> = (0..5_000).map(|key| add(&mut table, key)).collect();
        let stays = slots[2_345];
        let go = |table: &mut Table<u32>, slots: &[Slot]| {
            let going = slots.iter().filter(|slot| **slot != stays);
            going.for_each(|slot| table.free_unless_used(*slot));
        };
        go(&mut table, &slots);
        let pages = |table: &Table<u32>| {
            let pages = table.pages.iter();
            pages.filter(|page| page.entries.capacity() > 0).count()
        };
        assert_eq!((table.len(), pages(&table)), (1, 2));
        assert_eq!(add(&mut table, 2_345), stays);
        // Those who come and go one by one have the one that is kept.
        for key in 10_000..11_000 {
            let slot = add(&mut table, key);
            assert_eq!(pages(&table), 2);
            table.free_unless_used(slot);
        }
        // Other crowds have all of them again, each its own, in whichever order they left.
        for crowd in [5_000, 6_000, 5_500] {
            let mut again: Vec<Slot> = (0..crowd).map(|key| add(&mut table, key)).collect();
            for (key, slot) in (0..crowd).zip(&again) {
                assert_eq!(table.get(*slot).and_then(Entry::key), Some(&key));
            }
            again.reverse();
            go(&mut table, &again);
            assert_eq!((table.len(), pages(&table)), (1, 2));
        }
        table.free_unless_used(stays);
        assert_eq!((table.len(), pages(&table)), (0, 0));
    }
}
