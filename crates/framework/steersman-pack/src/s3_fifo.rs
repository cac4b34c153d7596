//! Machine: evicts decoded bodies by S3-FIFO (Yang et al., 2023) to stay within a byte budget.
//!
//! A decoded body enters the small queue, which has a tenth of the budget. At its turn there, it moves to the main
//! queue if it was read meanwhile; otherwise it is evicted. In the main queue, a body that was read since its last turn
//! gets another turn. A scan of all objects thus evicts only bodies in the small queue (PACK-3), and reading a cached
//! body only sets a bit.
//!
//! Instead of a ghost queue, each body keeps its eviction time. A body that is read soon after its eviction (a ghost
//! hit) enters the main queue directly, unless the next body of the main queue was read since its last turn. Thus a
//! working set that fits stays, whatever was cached before, and of a larger one the cached bodies stay.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// The small queue may have at least this fraction of the budget: one part in `SMALL_SHARE`.
const SMALL_SHARE: usize = 10;
/// Upper bound on second chances of the main queue per admission. After this many reinsertions the
/// next entry is evicted even if it was read.
const SECOND_CHANCES: usize = 64;
/// The index that means no slot.
const NONE: u32 = u32::MAX;

/// An owner of decoded forms that can be evicted.
pub trait Evictable: Send + Sync {
    /// Returns whether the owner was read since the last call.
    fn take_visited(&self) -> bool;

    /// Returns the time of the last eviction; 0 if the owner was never evicted.
    fn evicted_at(&self) -> &AtomicU32;

    /// Drops the decoded forms and releases the slot.
    fn evict(&self);
}

/// Eviction time of an owner, measured in evicted bytes (unit: limit / 2^20), so that four bytes
/// per owner are enough. The count wraps after thousands of limits; a wrong ghost hit costs little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EvictionTime(u32);

/// Identifies the slot of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(u32);

/// Owners to evict after the lock is released, and owners to drop then: the last reference may be among them.
#[derive(Default, derive_more::Debug)]
#[debug("Evictions {{ evicted: {}, .. }}", evicted.len())]
#[must_use = "the owners keep their forms until `evict_all`"]
pub struct Evictions {
    evicted: Vec<Arc<dyn Evictable>>,
    retained: Vec<Arc<dyn Evictable>>,
}

/// The queues of owners and their charges.
#[derive(Default)]
pub(crate) struct S3Fifo {
    slots: Vec<S3Slot>,
    free: Vec<u32>,
    small: Fifo,
    main: Fifo,
    evicted_bytes: u64,
}

struct S3Slot {
    holder: Option<Weak<dyn Evictable>>,
    charge: usize,
    queue: Option<QueueKind>,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueKind {
    Small,
    Main,
}

/// Slots in the order of their turns in a queue.
struct Fifo {
    first: u32,
    last: u32,
    charged: usize,
}

impl EvictionTime {
    /// The value for an owner that was never evicted.
    const NEVER: Self = Self(0);
    const UNITS: u32 = 1 << 20;

    fn of(evicted_bytes: u64, limit: usize) -> Self {
        let unit = (limit as u64 / u64::from(Self::UNITS)).max(1);
        // Times wrap at this range.
        let units = (evicted_bytes / unit) % u64::from(u32::MAX);
        Self(u32::try_from(units).unwrap_or(0) + 1)
    }

    /// Returns whether at most `limit` bytes were evicted since this time.
    fn is_recent(self, evicted_bytes: u64, limit: usize) -> bool {
        let since = Self::of(evicted_bytes, limit).0.wrapping_sub(self.0);
        let units = u32::try_from(limit).unwrap_or(u32::MAX).min(Self::UNITS);
        self != Self::NEVER && since <= units
    }
}

impl SlotId {
    /// The id that means no slot.
    pub const NONE: Self = Self(NONE);
}

impl Default for SlotId {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for Fifo {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
            charged: 0,
        }
    }
}

impl Evictions {
    /// Evicts all these owners.
    pub fn evict_all(self) {
        for holder in self.evicted {
            holder.evict();
        }
    }
}

impl S3Fifo {
    pub(crate) fn charged(&self) -> usize {
        self.small.charged + self.main.charged
    }

    /// Admits an owner. Returns its slot and the necessary evictions.
    pub(crate) fn admit(
        &mut self,
        holder: Weak<dyn Evictable>,
        charge: usize,
        limit: usize,
    ) -> (SlotId, Evictions) {
        let mut evictions = Evictions::default();
        let kind = self.queue_for(&holder, charge, limit, &mut evictions);
        let slot_id = self.insert(holder, charge, kind);
        self.make_room(limit, &mut evictions);
        (slot_id, evictions)
    }

    /// Admits an owner if no eviction is necessary.
    pub(crate) fn admit_if_room(
        &mut self,
        holder: Weak<dyn Evictable>,
        charge: usize,
        limit: usize,
    ) -> Option<SlotId> {
        let fits = self.charged() + charge <= limit;
        fits.then(|| self.insert(holder, charge, QueueKind::Small))
    }

    fn queue_for(
        &mut self,
        holder: &Weak<dyn Evictable>,
        charge: usize,
        limit: usize,
        evictions: &mut Evictions,
    ) -> QueueKind {
        // If the budget is used up, the next owner of the main queue has its turn now if it was read, so that the
        // visited bits stay recent. At most one owner has a turn here, because in a cyclic scan each owner is read
        // between two turns.
        let is_admissible_to_main =
            self.charged() + charge <= limit || self.is_next_unread(evictions);
        let Some(holder) = holder.upgrade() else {
            return QueueKind::Small;
        };
        let evicted_at = EvictionTime(holder.evicted_at().load(Ordering::Relaxed));
        let is_ghost_hit = evicted_at.is_recent(self.evicted_bytes, limit);
        evictions.retained.push(holder);
        if is_ghost_hit && is_admissible_to_main {
            QueueKind::Main
        } else {
            QueueKind::Small
        }
    }

    /// Returns whether the next owner of the main queue was not read since its last turn; a read one has its turn now.
    fn is_next_unread(&mut self, evictions: &mut Evictions) -> bool {
        let at = self.main.first;
        let slot = self.slots.get(at as usize);
        let Some(holder) = slot.and_then(|slot| slot.holder.as_ref()?.upgrade()) else {
            return true;
        };
        let is_visited = holder.take_visited();
        if is_visited {
            self.unlink(at);
            self.append(at, QueueKind::Main);
        }
        evictions.retained.push(holder);
        !is_visited
    }

    fn insert(&mut self, holder: Weak<dyn Evictable>, charge: usize, kind: QueueKind) -> SlotId {
        let slot = S3Slot {
            holder: Some(holder),
            charge,
            queue: None,
            before: NONE,
            after: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                // The number of owners is below 2^32, because each is an object in memory.
                u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
            }
        };
        self.append(at, kind);
        SlotId(at)
    }

    /// Changes the charge of an owner. Returns `None` if the owner was evicted.
    pub(crate) fn charge(
        &mut self,
        slot_id: SlotId,
        charge: usize,
        limit: usize,
    ) -> Option<Evictions> {
        let kind = self.slots.get(slot_id.0 as usize)?.queue?;
        let slot = &mut self.slots[slot_id.0 as usize];
        let before = std::mem::replace(&mut slot.charge, charge);
        let queue = self.queue(kind);
        queue.charged = queue.charged - before + charge;
        let mut evictions = Evictions::default();
        self.make_room(limit, &mut evictions);
        Some(evictions)
    }

    pub(crate) fn release(&mut self, slot_id: SlotId) {
        let Some(slot) = self.slots.get(slot_id.0 as usize) else {
            return;
        };
        if slot.queue.is_some() {
            self.unlink(slot_id.0);
        }
        self.slots[slot_id.0 as usize].holder = None;
        self.free.push(slot_id.0);
    }

    fn make_room(&mut self, limit: usize, evictions: &mut Evictions) {
        let mut second_chances = SECOND_CHANCES;
        while self.charged() > limit {
            let small_is_full = self.small.charged > limit / SMALL_SHARE;
            let kind = if small_is_full || self.main.first == NONE {
                QueueKind::Small
            } else {
                QueueKind::Main
            };
            let at = self.queue(kind).first;
            if at == NONE {
                break;
            }
            self.unlink(at);
            let holder = self.slots[at as usize].holder.as_ref();
            // An owner that is being dropped releases its slot itself.
            let Some(holder) = holder.and_then(Weak::upgrade) else {
                continue;
            };
            if second_chances > 0 && holder.take_visited() {
                if kind == QueueKind::Main {
                    second_chances -= 1;
                }
                self.append(at, QueueKind::Main);
                evictions.retained.push(holder);
            } else {
                self.evicted_bytes += self.slots[at as usize].charge as u64;
                // An owner evicted from the main queue had its second chances, so it leaves no ghost entry.
                let EvictionTime(evicted_at) = match kind {
                    QueueKind::Small => EvictionTime::of(self.evicted_bytes, limit),
                    QueueKind::Main => EvictionTime::NEVER,
                };
                holder.evicted_at().store(evicted_at, Ordering::Relaxed);
                evictions.evicted.push(holder);
            }
        }
    }

    fn queue(&mut self, kind: QueueKind) -> &mut Fifo {
        match kind {
            QueueKind::Small => &mut self.small,
            QueueKind::Main => &mut self.main,
        }
    }

    fn append(&mut self, at: u32, kind: QueueKind) {
        let charge = self.slots[at as usize].charge;
        let queue = self.queue(kind);
        let before = std::mem::replace(&mut queue.last, at);
        queue.charged += charge;
        if before == NONE {
            queue.first = at;
        } else {
            self.slots[before as usize].after = at;
        }
        let slot = &mut self.slots[at as usize];
        (slot.queue, slot.before, slot.after) = (Some(kind), before, NONE);
    }

    fn unlink(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let (before, after, charge) = (slot.before, slot.after, slot.charge);
        let Some(kind) = slot.queue.take() else {
            return;
        };
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => self.queue(kind).first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.queue(kind).last = before,
        }
        self.queue(kind).charged -= charge;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Fake {
        visited: AtomicBool,
        evicted: AtomicBool,
        evicted_at: AtomicU32,
    }

    impl Evictable for Fake {
        fn take_visited(&self) -> bool {
            self.visited.swap(false, Ordering::Relaxed)
        }

        fn evicted_at(&self) -> &AtomicU32 {
            &self.evicted_at
        }

        fn evict(&self) {
            assert!(!self.evicted.swap(true, Ordering::Relaxed));
        }
    }

    impl Fake {
        fn admitted(fifo: &mut S3Fifo, charge: usize, limit: usize) -> (Arc<Self>, SlotId) {
            let fake = Arc::<Self>::default();
            let slot_id = fake.admit(fifo, charge, limit);
            (fake, slot_id)
        }

        fn admit(self: &Arc<Self>, fifo: &mut S3Fifo, charge: usize, limit: usize) -> SlotId {
            let holder = Arc::downgrade(self) as Weak<dyn Evictable>;
            let (slot_id, evictions) = fifo.admit(holder, charge, limit);
            evictions.evict_all();
            slot_id
        }

        fn touch(&self) {
            self.visited.store(true, Ordering::Relaxed);
        }

        fn is_evicted(&self) -> bool {
            self.evicted.load(Ordering::Relaxed)
        }
    }

    /// Simulated objects that are read repeatedly within a budget.
    struct Readers {
        fifo: S3Fifo,
        objects: Vec<(Arc<Fake>, SlotId)>,
    }

    impl Readers {
        const LIMIT: usize = 1000;
        const CHARGE: usize = 10;

        fn of(objects: usize) -> Self {
            Self {
                fifo: S3Fifo::default(),
                objects: (0..objects)
                    .map(|_| (Arc::default(), SlotId::NONE))
                    .collect(),
            }
        }

        /// Reads each object of the range once. Returns how many of the reads hit the cache.
        fn read(&mut self, range: std::ops::Range<usize>) -> usize {
            let mut held = 0;
            for (fake, slot_id) in &mut self.objects[range] {
                if fake.evicted.swap(false, Ordering::Relaxed) {
                    self.fifo.release(std::mem::take(slot_id));
                }
                if *slot_id == SlotId::NONE {
                    fake.visited.store(false, Ordering::Relaxed);
                    *slot_id = fake.admit(&mut self.fifo, Self::CHARGE, Self::LIMIT);
                } else {
                    held += 1;
                    fake.touch();
                }
                assert!(self.fifo.charged() <= Self::LIMIT);
            }
            held
        }
    }

    // PACK-3: a single pass over many objects evicts no object that is read repeatedly.
    #[test]
    fn pack_3_a_working_set_that_fits_stays_cached_whatever_was_cached_before() {
        for hot in [5, 15, 50, 90] {
            let mut readers = Readers::of(50_000);
            // The first hundred objects are read twice, and all others once.
            readers.read(0..100);
            readers.read(0..100);
            readers.read(100..50_000);
            let mut round = || readers.read(20_000..20_000 + hot);
            round();
            round();
            for _ in 0..5 {
                assert_eq!(round(), hot);
            }
            // Neither a scan nor objects that are read twice evict the working set.
            for number in 0..5000 {
                readers.read(number..number + 1);
                if number % 50 == 0 {
                    assert!(readers.read(20_000..20_000 + hot) >= hot - 1);
                }
            }
        }
    }

    // PACK-3: a single pass over many objects evicts no object that is read repeatedly.
    #[test]
    fn pack_3_a_cyclic_scan_larger_than_the_budget_still_hits_most_of_the_budget() {
        for all in [105, 120, 150] {
            let mut readers = Readers::of(all);
            for round in 0..20 {
                let held = readers.read(0..all);
                assert!(round < 5 || held >= 80, "{held} of {all}");
            }
        }
    }

    #[test]
    fn eviction_times_wrap_and_stay_comparable_for_any_limit() {
        for limit in [1, 1000, 64 << 20, 3 << 30] {
            let long = limit as u64;
            for evicted_bytes in [1, long / 2, long + long / 3, 7_000_000_000_000] {
                let time = EvictionTime::of(evicted_bytes, limit);
                assert!(time.is_recent(evicted_bytes, limit));
                assert!(
                    time.is_recent(evicted_bytes + long / 2, limit),
                    "{limit} {evicted_bytes}"
                );
                let later = evicted_bytes + long + long / 2 + 2;
                assert!(!time.is_recent(later, limit), "{limit} {evicted_bytes}");
            }
            assert!(!EvictionTime::NEVER.is_recent(0, limit));
        }
    }

    // PACK-3: a single pass over many objects evicts no object that is read repeatedly.
    #[test]
    fn pack_3_a_scan_evicts_no_object_that_is_read_again() {
        let mut fifo = S3Fifo::default();
        let mut read_again = Vec::new();
        for _ in 0..80 {
            let (fake, _) = Fake::admitted(&mut fifo, 1, 100);
            fake.touch();
            read_again.push(fake);
        }
        let scanned: Vec<_> = (0..1000)
            .map(|_| Fake::admitted(&mut fifo, 1, 100))
            .collect();
        assert!(read_again.iter().all(|fake| !fake.is_evicted()));
        let evicted_at = scanned.iter().filter(|(fake, _)| !fake.is_evicted());
        assert_eq!(evicted_at.count(), 20);
        // Owners that are no longer read are evicted in the end.
        let mut others = Vec::new();
        for _ in 0..300 {
            let (fake, _) = Fake::admitted(&mut fifo, 1, 100);
            fake.touch();
            others.push(fake);
        }
        assert!(read_again.iter().all(|fake| fake.is_evicted()));
    }

    // PACK-2: the decoded forms stay within the budget.
    #[test]
    fn pack_2_the_budget_holds_even_if_every_object_is_read_again() {
        let mut fifo = S3Fifo::default();
        let mut all = Vec::new();
        for number in 0..500 {
            all.push(Fake::admitted(&mut fifo, 1 + number % 7, 200));
            all.iter().for_each(|(fake, _)| fake.touch());
            assert!(fifo.charged() <= 200);
        }
    }

    proptest! {
        // PACK-2: the decoded forms stay within the budget.
        #[test]
        fn pack_2_the_charge_equals_the_owners_held_and_stays_within_the_budget(
            steps in prop::collection::vec((0..5_u8, 0..50_usize, 1..30_usize), 1..200),
        ) {
            const LIMIT: usize = 100;
            let mut fifo = S3Fifo::default();
            let mut held: Vec<(Arc<Fake>, SlotId, usize)> = Vec::new();
            for (what, kind, charge) in steps {
                let number = kind % held.len().max(1);
                let one = held.get_mut(number);
                match (what, one) {
                    (0, Some((fake, _, _))) => fake.touch(),
                    (1, Some(_)) => {
                        let (_, slot_id, _) = held.swap_remove(number);
                        fifo.release(slot_id);
                    }
                    (2, Some((_, slot_id, charged))) => {
                        if let Some(evictions) = fifo.charge(*slot_id, charge, LIMIT) {
                            *charged = charge;
                            evictions.evict_all();
                        }
                    }
                    // An owner may be dropped before its slot is released.
                    (3, Some(_)) => {
                        let (fake, slot_id, _) = held.swap_remove(number);
                        drop(fake);
                        Fake::admitted(&mut fifo, 1, LIMIT);
                        fifo.release(slot_id);
                    }
                    _ => {
                        let (fake, slot_id) = Fake::admitted(&mut fifo, charge, LIMIT);
                        held.push((fake, slot_id, charge));
                    }
                }
                held.retain(|(fake, slot_id, _)| {
                    let stays = !fake.is_evicted();
                    if !stays {
                        fifo.release(*slot_id);
                    }
                    stays
                });
                let sum = held.iter().map(|(_, _, charge)| charge).sum::<usize>();
                prop_assert!(fifo.charged() >= sum && fifo.charged() <= LIMIT);
            }
            for (_, slot_id, _) in held.drain(..) {
                fifo.release(slot_id);
            }
            prop_assert_eq!(fifo.small.charged + fifo.main.charged, fifo.charged());
        }
    }
}
