//! Machine: what the bodies of one informer share: dictionary, budget, and what is known of their types.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use steersman_object::Object;

use crate::metrics::Counters;
use crate::pack::budget::Budget;
use crate::pack::codec::{Broken, Dictionary, Packed};
use crate::pack::samples::{Lesson, Samples, Share, spread};
use crate::pack::training::{FEW, Learning};
use crate::pack::weight::weigh;

/// How much more memory a decoded object takes than its JSON, before any has been weighed.
const FACTOR: usize = 8;
/// The first few of a type are weighed, and of the rest one of so many.
const FIRST: u32 = 4;
const SAMPLED: u32 = 64;
/// Half of what is known of a type is forgotten past so much JSON: it is about its newest objects.
const REMEMBERED: usize = 4 << 20;

/// What the bodies of one informer share.
pub(crate) struct Shelf {
    budget: Budget,
    counters: Counters,
    quotes: bool,
    dictionary: RwLock<Option<Arc<Dictionary>>>,
    learning: Mutex<Learning>,
    types: Mutex<Vec<Known>>,
    /// How many bodies there are, those that only events hold included.
    bodies: AtomicUsize,
    /// Of fewer bodies than these the dictionary is given up; 0 where there is none.
    few: AtomicUsize,
}

/// What is known of a type that somebody looked as.
struct Known {
    of: TypeId,
    seen: u32,
    /// How long the JSON was of those that were weighed, and what they came to.
    json: usize,
    bytes: usize,
}

impl Shelf {
    /// `secret` says that the objects are: errors do not quote them, and nothing is learned of them
    /// (PACK-4).
    pub(crate) fn new(budget: Budget, counters: Counters, secret: bool) -> Self {
        Self {
            budget,
            counters,
            quotes: !secret,
            dictionary: RwLock::default(),
            learning: Mutex::new(Learning::new(!secret)),
            types: Mutex::default(),
            bodies: AtomicUsize::new(0),
            few: AtomicUsize::new(0),
        }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether an error may quote an object.
    pub(crate) fn quotes(&self) -> bool {
        self.quotes
    }

    /// There is one body more.
    pub(crate) fn enter(&self) {
        self.bodies.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one less.
    pub(crate) fn leave(&self) {
        self.bodies.fetch_sub(1, Ordering::Relaxed);
    }

    // ----- packing -----

    /// Packs JSON as is best by now; says too whether there is something to learn.
    pub(crate) fn pack(&self, json: &[u8]) -> (Packed, bool) {
        let dictionary = self.dictionary.read().clone();
        let packed = self.budget.tools().pack(json, dictionary.as_ref());
        let bodies = self.bodies.load(Ordering::Relaxed);
        let due = self.learning.lock().note(json, packed.held(), bodies);
        (packed, due)
    }

    /// Packs anew what was packed before there was the dictionary, where that makes it smaller, and all that
    /// was packed by another: that goes with the last of them (PACK-5).
    pub(crate) fn repack(&self, packed: &Packed) -> Option<Packed> {
        let dictionary = self.dictionary.read().clone();
        if !is_outdated(packed, dictionary.as_ref()) {
            return None;
        }
        let tools = self.budget.tools();
        let again = tools.unpack(packed, |json| tools.pack(json, dictionary.as_ref()));
        let frees = packed.dictionary().is_some();
        again
            .ok()
            .filter(|again| frees || again.held() < packed.held())
    }

    /// Looks at the JSON.
    pub(crate) fn unpack<R>(
        &self,
        packed: &Packed,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Broken> {
        self.budget.tools().unpack(packed, look)
    }

    // ----- learning -----

    /// Whether what was packed before may be packed better.
    pub(crate) fn has_dictionary(&self) -> bool {
        self.dictionary.read().is_some()
    }

    /// The dictionary, and the samples to train another with, where it is time to.
    pub(crate) fn samples(&self) -> Option<(Samples, Option<Arc<Dictionary>>)> {
        let dictionary = self.dictionary.read().clone();
        let samples = self.learning.lock().begin()?;
        Some((samples, dictionary))
    }

    /// Whether samples of what is stored may be wanted.
    pub(crate) fn wants(&self) -> bool {
        self.learning.lock().may_want()
    }

    /// Of which of so many stored objects samples are wanted. None where none are.
    pub(crate) fn wanted(
        &self,
        stored: usize,
    ) -> Option<impl Iterator<Item = usize> + Clone + use<>> {
        let wants = stored >= FEW && self.learning.lock().wants();
        wants.then(|| spread(stored))
    }

    /// The dictionary, where it matters how well it packs what is stored.
    pub(crate) fn doubted(&self) -> Option<Arc<Dictionary>> {
        let doubts = self.learning.lock().doubts();
        self.dictionary.read().clone().filter(|_| doubts)
    }

    /// Tries it on the JSON of an object.
    pub(crate) fn try_on(&self, by: &Arc<Dictionary>, json: &[u8], share: &mut Share) {
        share.add(json.len(), self.budget.tools().pack(json, Some(by)).held());
    }

    /// That is what came of it: whether the dictionary is as good as it seemed.
    pub(crate) fn confirms(&self, share: Share) -> bool {
        self.learning.lock().confirms(share)
    }

    /// What there is already of the samples that are wanted.
    pub(crate) fn so_far(&self) -> Samples {
        self.learning.lock().so_far()
    }

    /// These are the samples that were wanted.
    pub(crate) fn complete(&self, samples: Samples) {
        self.learning.lock().complete(samples);
    }

    /// What learning came to.
    pub(crate) fn learn(&self, lesson: Option<Lesson>) {
        let mut dictionary = self.dictionary.write();
        let bodies = self.bodies.load(Ordering::Relaxed);
        let (mut learning, known) = (self.learning.lock(), dictionary.is_some());
        if let Some(new) = learning.end(lesson, bodies, known) {
            self.few.store(new.few(), Ordering::Relaxed);
            *dictionary = Some(Arc::new(new.dictionary));
        }
    }

    /// Whether there is a dictionary that is no longer worth it: most of the objects went.
    pub(crate) fn is_left(&self) -> bool {
        self.bodies.load(Ordering::Relaxed) < self.few.load(Ordering::Relaxed)
    }

    /// Gives up a dictionary that is no longer worth it; what it packed is to be packed again. Says whether
    /// it did.
    pub(crate) fn give_up(&self) -> bool {
        if !self.is_left() {
            return false;
        }
        let mut dictionary = self.dictionary.write();
        let few = self.few.swap(0, Ordering::Relaxed);
        // At so many it would be worth it again.
        self.learning.lock().give_up(4 * few);
        dictionary.take().is_some()
    }

    // ----- types -----

    /// How much memory a `K` of this JSON takes, by those of its type that were weighed.
    pub(crate) fn charge<K: Object>(&self, json: &[u8]) -> usize {
        let (number, weighs) = {
            let mut types = self.types.lock();
            let number = number_of(&mut types, TypeId::of::<K>());
            let known = &mut types[number];
            known.seen = known.seen.wrapping_add(1);
            let sampled = known.seen <= FIRST || known.seen.is_multiple_of(SAMPLED);
            // Where nothing is ever kept, it does not matter.
            (number, sampled && self.budget.limit() != Some(0))
        };
        // What users wrote runs under no lock that others wait for.
        let bytes = if weighs { weigh::<K>(json) } else { None };
        let mut types = self.types.lock();
        // Types only come.
        let known = &mut types[number];
        if let Some(bytes) = bytes {
            known.weigh(json.len(), bytes);
        }
        known.charge(json.len())
    }

    /// The bit that stands for a type; none of types past the first few.
    pub(crate) fn bit(&self, of: TypeId) -> u8 {
        let number = number_of(&mut self.types.lock(), of);
        u32::try_from(number)
            .ok()
            .and_then(|number| 1_u8.checked_shl(number))
            .unwrap_or(0)
    }
}

/// Whether it is packed by another dictionary, or by none though there is one. What came just now is packed
/// by who brought it, and what was made of it is settled then (PACK-6).
fn is_outdated(packed: &Packed, dictionary: Option<&Arc<Dictionary>>) -> bool {
    match (packed.dictionary(), dictionary) {
        _ if matches!(packed, Packed::Fresh(_)) => false,
        (None, known) => known.is_some(),
        (Some(_), None) => true,
        (Some(by), Some(known)) => !Arc::ptr_eq(by, known),
    }
}

/// Where a type is known.
fn number_of(types: &mut Vec<Known>, of: TypeId) -> usize {
    let known = types.iter().position(|known| known.of == of);
    known.unwrap_or_else(|| {
        types.push(Known {
            of,
            seen: 0,
            json: 0,
            bytes: 0,
        });
        types.len() - 1
    })
}

impl Known {
    fn weigh(&mut self, json: usize, bytes: usize) {
        self.json += json;
        self.bytes += bytes;
        if self.json > REMEMBERED {
            self.json /= 2;
            self.bytes /= 2;
        }
    }

    fn charge(&self, json: usize) -> usize {
        match self.json {
            0 => json.saturating_mul(FACTOR),
            known => json.saturating_mul(self.bytes) / known,
        }
    }
}

#[cfg(test)]
impl Shelf {
    /// One of no informer.
    pub(crate) fn alone(budget: Budget) -> Arc<Self> {
        Arc::new(Self::new(budget, Counters::default(), false))
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::samples::tests::{alike, lesson, others};

    fn of(bodies: usize) -> Arc<Shelf> {
        let shelf = Shelf::alone(Budget::default());
        (0..bodies).for_each(|_| shelf.enter());
        shelf
    }

    fn dictionary(shelf: &Shelf) -> Arc<Dictionary> {
        shelf.dictionary.read().clone().unwrap()
    }

    /// Packs again what can be packed better.
    fn repack(shelf: &Shelf, all: &mut [Packed]) {
        for packed in all {
            if let Some(again) = shelf.repack(packed) {
                *packed = again;
            }
        }
    }

    // PACK-5
    #[test]
    fn pack_5_what_another_dictionary_packed_is_packed_again_and_that_one_goes() {
        let shelf = of(50_000);
        let mut all: Vec<Packed> = (0..3).map(|at| shelf.pack(&alike(at)).0).collect();
        shelf.learn(lesson(alike, 300));
        let first = Arc::downgrade(&dictionary(&shelf));
        all.extend((3..30).map(|at| shelf.pack(&alike(at)).0));
        all.extend((30..60).map(|at| shelf.pack(&others(at)).0));
        shelf.learn(lesson(others, 300));
        assert!(first.upgrade().is_some());
        repack(&shelf, &mut all);
        let newest = dictionary(&shelf);
        for packed in &all[3..] {
            assert!(
                packed
                    .dictionary()
                    .is_some_and(|by| Arc::ptr_eq(by, &newest))
            );
            assert!(shelf.repack(packed).is_none());
        }
        assert!(first.upgrade().is_none());
        let json = shelf.unpack(&all[40], <[u8]>::to_vec).unwrap();
        assert_eq!(json, others(40));
        // What came just now waits for who brought it.
        let fresh = Packed::Fresh(Arc::new(json.into_boxed_slice()));
        assert!(shelf.repack(&fresh).is_none());
    }

    // PACK-5
    #[test]
    fn pack_5_a_dictionary_goes_where_most_of_the_objects_went() {
        let shelf = of(50_000);
        shelf.learn(lesson(alike, 300));
        let first = Arc::downgrade(&dictionary(&shelf));
        let mut all: Vec<Packed> = (0..10).map(|at| shelf.pack(&alike(at)).0).collect();
        assert!(!shelf.is_left() && !shelf.give_up());
        (0..49_990).for_each(|_| shelf.leave());
        assert!(shelf.is_left() && shelf.give_up());
        assert!(!shelf.is_left() && !shelf.give_up());
        repack(&shelf, &mut all);
        assert!(first.upgrade().is_none());
        assert_eq!(shelf.unpack(&all[7], <[u8]>::to_vec).unwrap(), alike(7));
        assert!(!shelf.pack(&alike(10)).1);
        // They come back, and so does it.
        (0..49_990).for_each(|_| shelf.enter());
        assert!(shelf.pack(&alike(10)).1);
    }
}
