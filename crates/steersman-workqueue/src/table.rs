//! Machine: the table of keys - each key once, under a small number while anything is known of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::delayed::DelayId;
use crate::index::{Found, Hash, Index, Occupant};
use crate::key::Key;
use crate::options::Priority;
use crate::ready::{KEPT, Slot, Turn};

/// So many slots are one page.
const PAGE: usize = 512;

/// The keys and what is known of them. Slots of keys that left are used again.
pub(crate) struct Table<T> {
    index: Index,
    pages: Vec<Page<T>>,
    // Keys that something is known of.
    live: usize,
    // Pages that have room, and some that had; a key that comes has a slot of the last one.
    roomy: Vec<usize>,
    // Pages that were given back.
    gone: Vec<usize>,
    // A page without keys that is kept for those who come next.
    spare: Option<usize>,
    // What stamps count from.
    began: Option<Instant>,
}

/// Some slots. A key stays in its slot as long as it is known, so what a crowd took is given back page by
/// page.
struct Page<T> {
    // As many as were ever used, of those that there is room for; none at all where it was given back.
    entries: Vec<Option<Entry<T>>>,
    // Places that are free among these.
    free: Vec<u16>,
    used: usize,
    is_roomy: bool,
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
    /// A ticket holds the key; `position` is where the list of held keys has it.
    Held {
        priority: Priority,
        position: u32,
    },
}

/// The key waits for a deadline; with `backoff`, because it failed, be the deadline that of the
/// failure or an earlier one.
pub(crate) struct Due {
    pub(crate) at: DelayId,
    pub(crate) priority: Priority,
    pub(crate) backoff: bool,
}

// === impl Table ===

impl<T: Key> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            index: Index::new(),
            pages: Vec::new(),
            live: 0,
            roomy: Vec::new(),
            gone: Vec::new(),
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

    /// Every slot that was ever used, and some that were not.
    pub(crate) fn slots(&self) -> Range<Slot> {
        // Slots are made by `slot_of` alone, which counts them in this type.
        0..(self.pages.len() * PAGE) as Slot
    }

    /// Of how many keys something is known.
    pub(crate) fn len(&self) -> usize {
        self.live
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
        let occupant = |slot| match entry_in(pages, slot) {
            Some(entry) if entry.key() == Some(&key) => Occupant::Sought,
            Some(entry) if entry.hash == hash => Occupant::Other,
            _ => Occupant::Gone,
        };
        let vacancy = match self.index.find(hash, occupant) {
            Found::Here(slot) => return slot,
            Found::Nowhere(vacancy) => vacancy,
        };
        let slot = self.put(Entry {
            key: Stored::Own(key),
            hash,
            standing: Standing::Neither,
            due: None,
            added: Stamp::default(),
        });
        self.index.fill(vacancy, hash, slot);
        slot
    }

    fn put(&mut self, entry: Entry<T>) -> Slot {
        let number = self.page_with_room();
        let page = &mut self.pages[number];
        let position = match page.free.pop() {
            Some(position) => {
                let position = usize::from(position);
                page.entries[position] = Some(entry);
                position
            }
            None => {
                page.entries.push(Some(entry));
                page.entries.len() - 1
            }
        };
        page.used += 1;
        self.live += 1;
        if self.spare == Some(number) {
            self.spare = None;
        }
        (number * PAGE + position) as Slot
    }

    fn page_with_room(&mut self) -> usize {
        while let Some(number) = self.roomy.last().copied() {
            let page = &mut self.pages[number];
            if page.has_room() {
                return number;
            }
            page.is_roomy = false;
            self.roomy.pop();
        }
        let number = self.gone.pop().unwrap_or(self.pages.len());
        if number == self.pages.len() {
            self.pages.push(Page::gone());
        }
        let page = &mut self.pages[number];
        page.entries = Vec::with_capacity(PAGE);
        page.is_roomy = true;
        self.roomy.push(number);
        number
    }

    /// Removes the key of `slot` unless it is ready, delayed or held.
    pub(crate) fn free_unless_used(&mut self, slot: Slot) {
        let (number, position) = (slot as usize / PAGE, slot as usize % PAGE);
        let Some(page) = self.pages.get_mut(number) else {
            return;
        };
        let is_used = |entry: &Entry<T>| entry.standing != Standing::Neither || entry.due.is_some();
        match page.entries.get_mut(position) {
            Some(entry) if entry.as_ref().is_some_and(|entry| !is_used(entry)) => *entry = None,
            _ => return,
        }
        // A page has fewer places than this type has numbers.
        page.free.push(position as u16);
        page.used -= 1;
        self.live -= 1;
        if !page.is_roomy {
            page.is_roomy = true;
            self.roomy.push(number);
        }
        if page.used == 0 && self.pages.len() * PAGE > KEPT {
            self.leave(number);
        }
    }

    // The last key of a page left.
    fn leave(&mut self, number: usize) {
        if self.live == 0 {
            let began = self.began;
            *self = Self::new();
            self.began = began;
        } else if let Some(spare) = self.spare.replace(number) {
            let is_roomy = self.pages[spare].is_roomy;
            self.pages[spare] = Page {
                is_roomy,
                ..Page::gone()
            };
            self.gone.push(spare);
        }
    }
}

// === impl Page ===

impl<T> Page<T> {
    fn gone() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            used: 0,
            is_roomy: false,
        }
    }

    fn has_room(&self) -> bool {
        let is_there = self.entries.capacity() > 0;
        is_there && (!self.free.is_empty() || self.entries.len() < PAGE)
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

    fn add(table: &mut Table<u32>, hashes: &Hashes, key: u32) -> Slot {
        let hash = hashes.of(&key);
        table.expect(std::iter::once(hash));
        table.slot_of(key, hash)
    }

    fn pages(table: &Table<u32>) -> usize {
        let pages = table.pages.iter();
        pages.filter(|page| page.entries.capacity() > 0).count()
    }

    #[test]
    fn an_entry_is_small_and_an_empty_table_gives_its_memory_back() {
        assert!(size_of::<Option<Entry<(String, String)>>>() <= 88);
        let (mut table, hashes) = (Table::new(), Hashes::default());
        let slots: Vec<Slot> = (0..5_000)
            .map(|key| add(&mut table, &hashes, key))
            .collect();
        assert_eq!(table.len(), 5_000);
        for slot in slots {
            table.free_unless_used(slot);
        }
        assert_eq!(table.len(), 0);
        assert_eq!(table.pages.capacity() + table.roomy.capacity(), 0);
    }

    #[test]
    fn who_stays_of_a_crowd_keeps_one_page_and_a_spare_one() {
        let (mut table, hashes) = (Table::new(), Hashes::default());
        let first: Vec<Slot> = (0..5_000)
            .map(|key| add(&mut table, &hashes, key))
            .collect();
        let stays = first[2_345];
        let go = |table: &mut Table<u32>, slots: &[Slot]| {
            let going = slots.iter().filter(|slot| **slot != stays);
            going.for_each(|slot| table.free_unless_used(*slot));
        };
        go(&mut table, &first);
        assert_eq!((table.len(), pages(&table)), (1, 2));
        assert_eq!(add(&mut table, &hashes, 2_345), stays);
        // Other crowds have all of it again, each key its own slot, in whichever order they leave.
        let orders: [fn(&mut Vec<Slot>); 3] = [
            |slots| slots.reverse(),
            |slots| slots.sort_by_key(|slot| slot.wrapping_mul(0x9e37_79b9)),
            |slots| slots.rotate_left(1_000),
        ];
        for (crowd, order) in [5_000, 6_000, 5_500].into_iter().zip(orders) {
            let mut slots: Vec<Slot> = (0..crowd)
                .map(|key| add(&mut table, &hashes, key))
                .collect();
            for (key, slot) in (0..crowd).zip(&slots) {
                assert_eq!(table.get(*slot).and_then(Entry::key), Some(&key));
            }
            order(&mut slots);
            go(&mut table, &slots);
            assert_eq!((table.len(), pages(&table)), (1, 2));
            // Those who come and go by some have what is kept, and no page comes or goes for them.
            for round in 0..1_000 {
                let keys = 10_000 + round..10_020 + round;
                let few: Vec<Slot> = keys.map(|key| add(&mut table, &hashes, key)).collect();
                assert_eq!(pages(&table), 2);
                few.iter().for_each(|slot| table.free_unless_used(*slot));
                assert_eq!(pages(&table), 2);
            }
        }
        table.free_unless_used(stays);
        assert_eq!((table.len(), pages(&table)), (0, 0));
    }
}
