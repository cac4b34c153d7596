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
use crate::pack::training::{ENOUGH, FEW, Learning, Lesson, Samples};
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

    /// Packs anew what was packed before there was a dictionary, where that makes it smaller.
    pub(crate) fn repack(&self, packed: &Packed) -> Option<Packed> {
        let dictionary = self.dictionary.read().clone()?;
        if packed.is_by_dictionary() {
            return None;
        }
        let tools = self.budget.tools();
        let again = tools.unpack(packed, |json| tools.pack(json, Some(&dictionary)));
        again.ok().filter(|again| again.held() < packed.held())
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

    /// The samples to train with, where it is time to.
    pub(crate) fn samples(&self) -> Option<Samples> {
        self.learning.lock().begin()
    }

    /// Of which of so many stored objects samples are wanted: of all over. None where none are.
    pub(crate) fn wanted(&self, stored: usize) -> Option<impl Iterator<Item = usize> + use<>> {
        let wants = stored >= FEW && self.learning.lock().is_collecting();
        wants.then(|| (0..stored).step_by(stored.div_ceil(ENOUGH).max(1)))
    }

    /// These are the samples that were wanted.
    pub(crate) fn complete(&self, samples: Samples) {
        self.learning.lock().complete(samples);
    }

    /// What training came to.
    pub(crate) fn learn(&self, lesson: Option<Lesson>) {
        let mut dictionary = self.dictionary.write();
        let bodies = self.bodies.load(Ordering::Relaxed);
        let (mut learning, known) = (self.learning.lock(), dictionary.is_some());
        let new = learning.end(lesson, bodies, known);
        if let Some(new) = new {
            *dictionary = Some(Arc::new(new));
        }
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
            // Where nothing is ever let go of, or kept, it does not matter.
            let matters = self.budget.limit().is_some_and(|limit| limit > 0);
            (number, sampled && matters)
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
