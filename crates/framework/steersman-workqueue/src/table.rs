//! Machine: the table of keys, with one slot for each key of the queue.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::causes::Causes;
use crate::delayed::DelayId;
use crate::held::Rerun;
use crate::index::{FoundSlot, Hash, Occupant, SlotIndex};
use crate::key::Key;
use crate::options::Priority;
use crate::ready::{KEPT, KeySlot, Turn};

/// The number of slots per page.
const PAGE: usize = 512;

/// The pause of a spaced add after the first early run that failed (WQ-12). It doubles with each further failed run.
const EARLY_PAUSE: Duration = Duration::from_millis(5);

/// The keys of the queue and their state. The slot of a removed key is reused.
pub(crate) struct KeyTable<T> {
    index: SlotIndex,
    pages: Vec<SlotPage<T>>,
    // The number of keys in the table.
    live: usize,
    // Pages with free slots, and some pages that have filled up since. The last page of the list takes the next key.
    roomy: Vec<usize>,
    // Pages with freed memory.
    gone: Vec<usize>,
    // An empty page that keeps its memory for the next keys.
    spare: Option<usize>,
    // The instant from which stamps count.
    began: Option<Instant>,
}

/// A group of slots. A key keeps its slot while the queue knows the key, so memory is freed page by page.
struct SlotPage<T> {
    // All slots that were ever used. The capacity is a multiple of a page, or zero for an empty table.
    entries: Vec<Option<KeyEntry<T>>>,
    // The positions of the free slots.
    free: Vec<u16>,
    used: usize,
    is_roomy: bool,
}

/// The state of one key. Small, because each waiting key has one.
pub(crate) struct KeyEntry<T> {
    key: Stored<T>,
    hash: Hash,
    pub(crate) status: KeyStatus,
    // The delay and the retry. Boxed, because few keys have a deadline.
    pub(crate) due: Option<Box<Deadlines>>,
    // The time at which the key last became ready, or was added while held; recorded only for metrics.
    pub(crate) added: Stamp,
}

/// An instant as nanoseconds since the first instant of the table, half as large as an `Instant`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stamp(u64);

/// A key, which becomes shared with its first ticket: a waiting key needs no second allocation.
enum Stored<T> {
    Own(T),
    Shared(Arc<T>),
    /// A state during the conversion from owned to shared.
    Moving,
}

/// Whether a key is ready, held, or neither (delayed).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyStatus {
    Neither,
    /// The key is ready, in the line of its priority.
    Ready {
        priority: Priority,
        turn: Turn,
        causes: Causes,
    },
    /// A ticket holds the key; `position` is its index in the list of held keys.
    Held {
        priority: Priority,
        position: u32,
    },
}

pub(crate) struct Deadlines {
    /// The delay that the key waits for; `None` while the key is ready or held and only keeps its retry.
    pub(crate) at: Option<DelayId>,
    pub(crate) priority: Priority,
    /// The causes of the run at the end of the delay.
    pub(crate) causes: Causes,
    /// The retry of a key that has failed, even if an add has brought the next run forward.
    pub(crate) retry: Option<Retry>,
}

/// The retry of a key that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) deadline: Instant,
    /// The number of runs that began before the deadline of the retry and failed.
    pub(crate) early_failures: u32,
}

// === impl KeyTable ===

impl<T: Key> KeyTable<T> {
    pub(crate) fn new() -> Self {
        Self {
            index: SlotIndex::new(),
            pages: Vec::new(),
            live: 0,
            roomy: Vec::new(),
            gone: Vec::new(),
            spare: None,
            began: None,
        }
    }

    pub(crate) fn get(&self, slot: KeySlot) -> Option<&KeyEntry<T>> {
        entry_in(&self.pages, slot)
    }

    pub(crate) fn get_mut(&mut self, slot: KeySlot) -> Option<&mut KeyEntry<T>> {
        let page = self.pages.get_mut(slot as usize / PAGE)?;
        page.entries.get_mut(slot as usize % PAGE)?.as_mut()
    }

    /// Records the time at which a key became ready, or was added while held.
    pub(crate) fn stamp(&mut self, slot: KeySlot, now: Instant) {
        let began = *self.began.get_or_insert(now);
        if let Some(entry) = self.get_mut(slot) {
            // 64 bits of nanoseconds last for centuries.
            let nanos = now.saturating_duration_since(began).as_nanos();
            entry.added = Stamp(nanos as u64);
        }
    }

    pub(crate) fn time_since(&self, added: Stamp, now: Instant) -> Duration {
        let began = self.began.unwrap_or(now);
        let since = now.saturating_duration_since(began);
        since.saturating_sub(Duration::from_nanos(added.0))
    }

    /// Returns the instant of a stamp; `None` if no time was recorded yet.
    pub(crate) fn instant_of(&self, added: Stamp) -> Option<Instant> {
        self.began?.checked_add(Duration::from_nanos(added.0))
    }

    pub(crate) fn slots(&self) -> Range<KeySlot> {
        // Only `slot_of` makes slot numbers, as values of this type.
        0..(self.pages.len() * PAGE) as KeySlot
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    pub(crate) fn is_ready(&self, turn: Turn, slot: KeySlot) -> bool {
        let status = self.get(slot).map(|entry| entry.status);
        matches!(status, Some(KeyStatus::Ready { turn: since, .. }) if since == turn)
    }

    /// Prepares the table for calls of `slot_of` with these hashes.
    pub(crate) fn expect(&mut self, hashes: impl ExactSizeIterator<Item = Hash>) {
        let pages = &self.pages;
        let live = self.len();
        self.index.reserve(hashes.len(), live, |hash, slot| {
            entry_in(pages, slot).is_some_and(|entry| entry.hash == hash)
        });
        self.index.approach(hashes);
    }

    /// Returns the slot of `key`, a new slot for a new key. `expect` must have been called with the hash.
    pub(crate) fn slot_of(&mut self, key: T, hash: Hash) -> KeySlot {
        let pages = &self.pages;
        let occupant = |slot| match entry_in(pages, slot) {
            Some(entry) if entry.key() == Some(&key) => Occupant::Sought,
            Some(entry) if entry.hash == hash => Occupant::Other,
            _ => Occupant::Gone,
        };
        let vacancy = match self.index.find(hash, occupant) {
            FoundSlot::Here(slot) => return slot,
            FoundSlot::Nowhere(vacancy) => vacancy,
        };
        let slot = self.put(KeyEntry {
            key: Stored::Own(key),
            hash,
            status: KeyStatus::Neither,
            due: None,
            added: Stamp::default(),
        });
        self.index.fill(vacancy, hash, slot);
        slot
    }

    fn put(&mut self, entry: KeyEntry<T>) -> KeySlot {
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
        (number * PAGE + position) as KeySlot
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
            self.pages.push(SlotPage::gone());
        }
        let page = &mut self.pages[number];
        page.entries = Vec::with_capacity(PAGE);
        page.is_roomy = true;
        self.roomy.push(number);
        number
    }

    /// Removes the key of `slot` unless it is ready, delayed or held.
    pub(crate) fn free_unless_used(&mut self, slot: KeySlot) {
        let (number, position) = (slot as usize / PAGE, slot as usize % PAGE);
        let Some(page) = self.pages.get_mut(number) else {
            return;
        };
        let is_used =
            |entry: &KeyEntry<T>| entry.status != KeyStatus::Neither || entry.due.is_some();
        match page.entries.get_mut(position) {
            Some(entry) if entry.as_ref().is_some_and(|entry| !is_used(entry)) => *entry = None,
            _ => return,
        }
        // The positions of a page fit into this type.
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

    // Frees memory after the last key of a page was removed.
    fn leave(&mut self, number: usize) {
        if self.live == 0 {
            let began = self.began;
            *self = Self::new();
            self.began = began;
        } else if let Some(spare) = self.spare.replace(number) {
            let is_roomy = self.pages[spare].is_roomy;
            self.pages[spare] = SlotPage {
                is_roomy,
                ..SlotPage::gone()
            };
            self.gone.push(spare);
        }
    }
}

// === impl Deadlines ===

impl Deadlines {
    /// Makes the deadlines of a key that is not delayed, and keeps a retry.
    pub(crate) fn of_retry(retry: Retry) -> Self {
        Self {
            at: None,
            priority: Priority::new(i32::MIN),
            causes: Causes::NONE,
            retry: Some(retry),
        }
    }

    /// Removes the delay; the retry stays.
    pub(crate) fn keep_retry(&mut self) {
        self.at = None;
        self.priority = Priority::new(i32::MIN);
        self.causes = Causes::NONE;
    }

    /// Merges an add that waits for this delay: its priority and its causes.
    pub(crate) fn merge(&mut self, add: Rerun) {
        self.priority = self.priority.max(add.priority);
        self.causes |= add.causes;
    }
}

// === impl Retry ===

impl Retry {
    pub(crate) fn at(deadline: Instant) -> Self {
        Self {
            deadline,
            early_failures: 0,
        }
    }

    pub(crate) fn after_failure(self) -> Self {
        Self {
            early_failures: self.early_failures.saturating_add(1),
            ..self
        }
    }

    /// Returns the instant at which a spaced add runs: `now` before the first failure of an early run (WQ-12).
    pub(crate) fn earliest_run(self, now: Instant) -> Instant {
        let Some(doublings) = self.early_failures.checked_sub(1) else {
            return now;
        };
        let pause = EARLY_PAUSE.saturating_mul(1 << doublings.min(30));
        now.checked_add(pause)
            .map_or(self.deadline, |early| early.min(self.deadline))
    }

    /// Returns the retry with the earlier deadline.
    pub(crate) fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.deadline < a.deadline { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

// === impl SlotPage ===

impl<T> SlotPage<T> {
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

fn entry_in<T>(pages: &[SlotPage<T>], slot: KeySlot) -> Option<&KeyEntry<T>> {
    let page = pages.get(slot as usize / PAGE)?;
    page.entries.get(slot as usize % PAGE)?.as_ref()
}

// === impl KeyEntry ===

impl<T> KeyEntry<T> {
    pub(crate) fn key(&self) -> Option<&T> {
        match &self.key {
            Stored::Own(key) => Some(key),
            Stored::Shared(key) => Some(key),
            Stored::Moving => None,
        }
    }

    /// Removes and returns the retry of the key. A delay that the key waits for stays.
    pub(crate) fn take_retry(&mut self) -> Option<Retry> {
        let due = self.due.as_mut()?;
        let retry = due.retry.take();
        if due.at.is_none() {
            self.due = None;
        }
        retry
    }

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

    fn add(table: &mut KeyTable<u32>, hashes: &Hashes, key: u32) -> KeySlot {
        let hash = hashes.of(&key);
        table.expect(std::iter::once(hash));
        table.slot_of(key, hash)
    }

    fn pages(table: &KeyTable<u32>) -> usize {
        let pages = table.pages.iter();
        pages.filter(|page| page.entries.capacity() > 0).count()
    }

    #[test]
    fn an_entry_is_small_and_an_empty_table_gives_its_memory_back() {
        assert!(size_of::<Option<KeyEntry<(String, String)>>>() <= 88);
        let (mut table, hashes) = (KeyTable::new(), Hashes::default());
        let slots: Vec<KeySlot> = (0..5_000)
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
    fn one_remaining_key_keeps_its_page_and_one_spare_page() {
        let (mut table, hashes) = (KeyTable::new(), Hashes::default());
        let first: Vec<KeySlot> = (0..5_000)
            .map(|key| add(&mut table, &hashes, key))
            .collect();
        let stays = first[2_345];
        let go = |table: &mut KeyTable<u32>, slots: &[KeySlot]| {
            let going = slots.iter().filter(|slot| **slot != stays);
            going.for_each(|slot| table.free_unless_used(*slot));
        };
        go(&mut table, &first);
        assert_eq!((table.len(), pages(&table)), (1, 2));
        assert_eq!(add(&mut table, &hashes, 2_345), stays);
        // Later keys get all freed slots, one slot per key, in whichever order keys were removed.
        let orders: [fn(&mut Vec<KeySlot>); 3] = [
            |slots| slots.reverse(),
            |slots| slots.sort_by_key(|slot| slot.wrapping_mul(0x9e37_79b9)),
            |slots| slots.rotate_left(1_000),
        ];
        for (crowd, order) in [5_000, 6_000, 5_500].into_iter().zip(orders) {
            let mut slots: Vec<KeySlot> = (0..crowd)
                .map(|key| add(&mut table, &hashes, key))
                .collect();
            for (key, slot) in (0..crowd).zip(&slots) {
                assert_eq!(table.get(*slot).and_then(KeyEntry::key), Some(&key));
            }
            order(&mut slots);
            go(&mut table, &slots);
            assert_eq!((table.len(), pages(&table)), (1, 2));
            // A few keys that are added and removed fit into the kept pages.
            for round in 0..1_000 {
                let keys = 10_000 + round..10_020 + round;
                let few: Vec<KeySlot> = keys.map(|key| add(&mut table, &hashes, key)).collect();
                assert_eq!(pages(&table), 2);
                few.iter().for_each(|slot| table.free_unless_used(*slot));
                assert_eq!(pages(&table), 2);
            }
        }
        table.free_unless_used(stays);
        assert_eq!((table.len(), pages(&table)), (0, 0));
    }
}
