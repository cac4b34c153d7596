//! Machine: which decoded bodies stay, within a budget: those that are read again.
//!
//! Two queues, as in S3-FIFO (Yang et al., 2023). Whatever is decoded is on probation first, in a
//! tenth of the budget; what was read again by the time its turn comes moves to the main queue, and
//! the rest goes. In the main queue too, what was read since its last turn has another one. So
//! whoever reads everything once drives out only what is on probation (PACK-3), and a read that
//! finds what it wants moves nothing: it marks it.
//!
//! What left probation and is wanted again soon was read again after all, only not in time: it goes
//! to the main queue at once, if whoever is next there was not read since its last turn. So those who
//! are read in turn, and fit, come to stay, whoever was there before; and where more are read in turn
//! than fit, those who have a place keep it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// What part of the budget those on probation have, at least.
const PROBATION: usize = 10;
/// So many of the main queue are given another turn at once; then whoever is next goes, whatever is said
/// of it. Who leaves probation does so but once.
const CHANCES: usize = 64;
/// No place.
const NONE: u32 = u32::MAX;

/// Whoever holds something decoded.
pub(crate) trait Holder: Send + Sync {
    /// Whether it was read since this was last asked.
    fn take_touched(&self) -> bool;

    /// When it left, as the ring tells the time; 0 at first.
    fn left(&self) -> &AtomicU32;

    /// It has to let go of what it holds decoded, and to give its place back.
    fn evict(&self);
}

/// When somebody left probation, by how much has left the ring: in units of a millionth of the limit, so
/// that four bytes of each holder are enough. It begins again after thousands of limits; whoever is wrongly
/// taken for one who left lately has to be read again as all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Time(u32);

/// Where a holder is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// What has to be done once no lock is held: a holder may be dropped with its last mention.
#[derive(Default)]
#[must_use]
pub(crate) struct Leavers {
    evicted: Vec<Arc<dyn Holder>>,
    spared: Vec<Arc<dyn Holder>>,
}

/// The holders of what is decoded, and how much that is.
#[derive(Default)]
pub(crate) struct Ring {
    slots: Vec<Slot>,
    free: Vec<u32>,
    probation: Queue,
    main: Queue,
    /// How much had to go so far.
    gone: u64,
}

struct Slot {
    holder: Option<Weak<dyn Holder>>,
    charge: usize,
    queue: Option<Which>,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Probation,
    Main,
}

/// Slots in the order in which their turn comes.
struct Queue {
    first: u32,
    last: u32,
    charged: usize,
}

impl Time {
    /// Before anybody left.
    const NEVER: Self = Self(0);
    /// The limit is so many units.
    const UNITS: u32 = 1 << 20;

    fn of(gone: u64, limit: usize) -> Self {
        let unit = (limit as u64 / u64::from(Self::UNITS)).max(1);
        // The remainder of it is enough.
        let units = (gone / unit) % u64::from(u32::MAX);
        Self(u32::try_from(units).unwrap_or(0) + 1)
    }

    /// Whether no more than the limit has gone since.
    fn is_recent(self, gone: u64, limit: usize) -> bool {
        let since = Self::of(gone, limit).0.wrapping_sub(self.0);
        let units = u32::try_from(limit).unwrap_or(u32::MAX).min(Self::UNITS);
        self != Self::NEVER && since <= units
    }
}

impl Place {
    /// Where nobody is known.
    pub(crate) const NONE: Self = Self(NONE);
}

impl Default for Place {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
            charged: 0,
        }
    }
}

impl Leavers {
    /// Lets them go.
    pub(crate) fn leave(self) {
        for holder in self.evicted {
            holder.evict();
        }
    }
}

impl Ring {
    /// How much is charged.
    pub(crate) fn charged(&self) -> usize {
        self.probation.charged + self.main.charged
    }

    /// Takes a holder in, and tells who has to go for that.
    pub(crate) fn admit(
        &mut self,
        holder: Weak<dyn Holder>,
        charge: usize,
        limit: usize,
    ) -> (Place, Leavers) {
        let mut leavers = Leavers::default();
        let which = self.which(&holder, charge, limit, &mut leavers);
        let place = self.take_in(holder, charge, which);
        self.make_room(limit, &mut leavers);
        (place, leavers)
    }

    /// Takes a holder in, if nobody has to go for that.
    pub(crate) fn admit_if_room(
        &mut self,
        holder: Weak<dyn Holder>,
        charge: usize,
        limit: usize,
    ) -> Option<Place> {
        let fits = self.charged() + charge <= limit;
        fits.then(|| self.take_in(holder, charge, Which::Probation))
    }

    /// Where who is admitted belongs.
    fn which(
        &mut self,
        holder: &Weak<dyn Holder>,
        charge: usize,
        limit: usize,
        leavers: &mut Leavers,
    ) -> Which {
        // Whoever comes to a full ring has the main queue move on by one who was read since, so that its
        // marks are of late. It is one at most: where all are read in turn, each is read between two turns.
        let makes_way = self.charged() + charge <= limit || self.is_next_idle(leavers);
        let Some(holder) = holder.upgrade() else {
            return Which::Probation;
        };
        let left = Time(holder.left().load(Ordering::Relaxed));
        let is_back = left.is_recent(self.gone, limit);
        leavers.spared.push(holder);
        if is_back && makes_way {
            Which::Main
        } else {
            Which::Probation
        }
    }

    /// Whether whoever is next in the main queue was not read since its last turn; else this was its turn.
    fn is_next_idle(&mut self, leavers: &mut Leavers) -> bool {
        let at = self.main.first;
        let slot = self.slots.get(at as usize);
        let Some(holder) = slot.and_then(|slot| slot.holder.as_ref()?.upgrade()) else {
            return true;
        };
        let is_touched = holder.take_touched();
        if is_touched {
            self.unlink(at);
            self.append(at, Which::Main);
        }
        leavers.spared.push(holder);
        !is_touched
    }

    fn take_in(&mut self, holder: Weak<dyn Holder>, charge: usize, which: Which) -> Place {
        let slot = Slot {
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
                // There are fewer holders than objects, and fewer of these than fit in memory.
                u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
            }
        };
        self.append(at, which);
        Place(at)
    }

    /// A holder holds more than before, or less, and nobody has told it to go.
    pub(crate) fn charge(&mut self, place: Place, charge: usize, limit: usize) -> Option<Leavers> {
        let which = self.slots.get(place.0 as usize)?.queue?;
        let slot = &mut self.slots[place.0 as usize];
        let before = std::mem::replace(&mut slot.charge, charge);
        let queue = self.queue(which);
        queue.charged = queue.charged - before + charge;
        let mut leavers = Leavers::default();
        self.make_room(limit, &mut leavers);
        Some(leavers)
    }

    /// A holder gives its place back.
    pub(crate) fn release(&mut self, place: Place) {
        let Some(slot) = self.slots.get(place.0 as usize) else {
            return;
        };
        if slot.queue.is_some() {
            self.unlink(place.0);
        }
        self.slots[place.0 as usize].holder = None;
        self.free.push(place.0);
    }

    fn make_room(&mut self, limit: usize, leavers: &mut Leavers) {
        let mut chances = CHANCES;
        while self.charged() > limit {
            let crowded = self.probation.charged > limit / PROBATION;
            let which = if crowded || self.main.first == NONE {
                Which::Probation
            } else {
                Which::Main
            };
            let at = self.queue(which).first;
            if at == NONE {
                break;
            }
            self.unlink(at);
            let holder = self.slots[at as usize].holder.as_ref();
            // One that is gone gives its place back by itself.
            let Some(holder) = holder.and_then(Weak::upgrade) else {
                continue;
            };
            if chances > 0 && holder.take_touched() {
                if which == Which::Main {
                    chances -= 1;
                }
                self.append(at, Which::Main);
                leavers.spared.push(holder);
            } else {
                self.gone += self.slots[at as usize].charge as u64;
                // Who had a place of the main queue had its turns.
                let Time(left) = match which {
                    Which::Probation => Time::of(self.gone, limit),
                    Which::Main => Time::NEVER,
                };
                holder.left().store(left, Ordering::Relaxed);
                leavers.evicted.push(holder);
            }
        }
    }

    fn queue(&mut self, which: Which) -> &mut Queue {
        match which {
            Which::Probation => &mut self.probation,
            Which::Main => &mut self.main,
        }
    }

    fn append(&mut self, at: u32, which: Which) {
        let charge = self.slots[at as usize].charge;
        let queue = self.queue(which);
        let before = std::mem::replace(&mut queue.last, at);
        queue.charged += charge;
        if before == NONE {
            queue.first = at;
        } else {
            self.slots[before as usize].after = at;
        }
        let slot = &mut self.slots[at as usize];
        (slot.queue, slot.before, slot.after) = (Some(which), before, NONE);
    }

    fn unlink(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let (before, after, charge) = (slot.before, slot.after, slot.charge);
        let Some(which) = slot.queue.take() else {
            return;
        };
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => self.queue(which).first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.queue(which).last = before,
        }
        self.queue(which).charged -= charge;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Fake {
        touched: AtomicBool,
        evicted: AtomicBool,
        left: AtomicU32,
    }

    impl Holder for Fake {
        fn take_touched(&self) -> bool {
            self.touched.swap(false, Ordering::Relaxed)
        }

        fn left(&self) -> &AtomicU32 {
            &self.left
        }

        fn evict(&self) {
            assert!(!self.evicted.swap(true, Ordering::Relaxed));
        }
    }

    impl Fake {
        fn admitted(ring: &mut Ring, charge: usize, limit: usize) -> (Arc<Self>, Place) {
            let fake = Arc::<Self>::default();
            let place = fake.admit(ring, charge, limit);
            (fake, place)
        }

        fn admit(self: &Arc<Self>, ring: &mut Ring, charge: usize, limit: usize) -> Place {
            let holder = Arc::downgrade(self) as Weak<dyn Holder>;
            let (place, leavers) = ring.admit(holder, charge, limit);
            leavers.leave();
            place
        }

        fn touch(&self) {
            self.touched.store(true, Ordering::Relaxed);
        }

        fn is_evicted(&self) -> bool {
            self.evicted.load(Ordering::Relaxed)
        }
    }

    /// Objects that are read, whatever becomes of their places.
    struct Readers {
        ring: Ring,
        objects: Vec<(Arc<Fake>, Place)>,
    }

    impl Readers {
        const LIMIT: usize = 1000;
        const CHARGE: usize = 10;

        fn of(objects: usize) -> Self {
            Self {
                ring: Ring::default(),
                objects: (0..objects)
                    .map(|_| (Arc::default(), Place::NONE))
                    .collect(),
            }
        }

        /// Reads each of them once; says how many were held.
        fn read(&mut self, which: std::ops::Range<usize>) -> usize {
            let mut held = 0;
            for (fake, place) in &mut self.objects[which] {
                if fake.evicted.swap(false, Ordering::Relaxed) {
                    self.ring.release(std::mem::take(place));
                }
                if *place == Place::NONE {
                    fake.touched.store(false, Ordering::Relaxed);
                    *place = fake.admit(&mut self.ring, Self::CHARGE, Self::LIMIT);
                } else {
                    held += 1;
                    fake.touch();
                }
                assert!(self.ring.charged() <= Self::LIMIT);
            }
            held
        }
    }

    // PACK-3
    #[test]
    fn pack_3_those_who_are_read_in_turn_and_fit_come_to_stay_whoever_was_there_before() {
        for hot in [5, 15, 50, 90] {
            let mut readers = Readers::of(50_000);
            // Those who came first were read once more, and everybody was read once.
            readers.read(0..100);
            readers.read(0..100);
            readers.read(100..50_000);
            let mut round = || readers.read(20_000..20_000 + hot);
            round();
            round();
            for _ in 0..5 {
                assert_eq!(round(), hot);
            }
            // Neither a pass over everything drives them out, nor what is read twice.
            for number in 0..5000 {
                readers.read(number..number + 1);
                if number % 50 == 0 {
                    assert!(readers.read(20_000..20_000 + hot) >= hot - 1);
                }
            }
        }
    }

    // PACK-3
    #[test]
    fn pack_3_of_those_who_are_read_in_turn_and_do_not_fit_most_of_what_fits_stays() {
        for all in [105, 120, 150] {
            let mut readers = Readers::of(all);
            for round in 0..20 {
                let held = readers.read(0..all);
                assert!(round < 5 || held >= 80, "{held} of {all}");
            }
        }
    }

    #[test]
    fn time_begins_again_and_is_told_apart_whatever_the_limit() {
        for limit in [1, 1000, 64 << 20, 3 << 30] {
            let long = limit as u64;
            for gone in [1, long / 2, long + long / 3, 7_000_000_000_000] {
                let time = Time::of(gone, limit);
                assert!(time.is_recent(gone, limit));
                assert!(time.is_recent(gone + long / 2, limit), "{limit} {gone}");
                let later = gone + long + long / 2 + 2;
                assert!(!time.is_recent(later, limit), "{limit} {gone}");
            }
            assert!(!Time::NEVER.is_recent(0, limit));
        }
    }

    // PACK-3
    #[test]
    fn pack_3_who_reads_everything_once_drives_out_nothing_that_is_read_again() {
        let mut ring = Ring::default();
        let mut read_again = Vec::new();
        for _ in 0..80 {
            let (fake, _) = Fake::admitted(&mut ring, 1, 100);
            fake.touch();
            read_again.push(fake);
        }
        let scanned: Vec<_> = (0..1000)
            .map(|_| Fake::admitted(&mut ring, 1, 100))
            .collect();
        assert!(read_again.iter().all(|fake| !fake.is_evicted()));
        let left = scanned.iter().filter(|(fake, _)| !fake.is_evicted());
        assert_eq!(left.count(), 20);
        // What is read no more goes in the end, where others are read instead.
        let mut others = Vec::new();
        for _ in 0..300 {
            let (fake, _) = Fake::admitted(&mut ring, 1, 100);
            fake.touch();
            others.push(fake);
        }
        assert!(read_again.iter().all(|fake| fake.is_evicted()));
    }

    // PACK-2
    #[test]
    fn pack_2_those_who_are_all_read_again_and_again_stay_within_the_budget_too() {
        let mut ring = Ring::default();
        let mut all = Vec::new();
        for number in 0..500 {
            all.push(Fake::admitted(&mut ring, 1 + number % 7, 200));
            all.iter().for_each(|(fake, _)| fake.touch());
            assert!(ring.charged() <= 200);
        }
    }

    proptest! {
        // PACK-2
        #[test]
        fn pack_2_what_is_charged_is_what_is_held_and_within_the_budget(
            steps in prop::collection::vec((0..5_u8, 0..50_usize, 1..30_usize), 1..200),
        ) {
            const LIMIT: usize = 100;
            let mut ring = Ring::default();
            let mut held: Vec<(Arc<Fake>, Place, usize)> = Vec::new();
            for (what, which, charge) in steps {
                let number = which % held.len().max(1);
                let one = held.get_mut(number);
                match (what, one) {
                    (0, Some((fake, _, _))) => fake.touch(),
                    (1, Some(_)) => {
                        let (_, place, _) = held.swap_remove(number);
                        ring.release(place);
                    }
                    (2, Some((_, place, charged))) => {
                        if let Some(leavers) = ring.charge(*place, charge, LIMIT) {
                            *charged = charge;
                            leavers.leave();
                        }
                    }
                    // Nobody waits to give a place back: another may hold its last mention.
                    (3, Some(_)) => {
                        let (fake, place, _) = held.swap_remove(number);
                        drop(fake);
                        Fake::admitted(&mut ring, 1, LIMIT);
                        ring.release(place);
                    }
                    _ => {
                        let (fake, place) = Fake::admitted(&mut ring, charge, LIMIT);
                        held.push((fake, place, charge));
                    }
                }
                held.retain(|(fake, place, _)| {
                    let stays = !fake.is_evicted();
                    if !stays {
                        ring.release(*place);
                    }
                    stays
                });
                let sum = held.iter().map(|(_, _, charge)| charge).sum::<usize>();
                prop_assert!(ring.charged() >= sum && ring.charged() <= LIMIT);
            }
            for (_, place, _) in held.drain(..) {
                ring.release(place);
            }
            prop_assert_eq!(ring.probation.charged + ring.main.charged, ring.charged());
        }
    }
}
