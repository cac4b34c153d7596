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

/// How much more memory a decoded object takes than its JSON: a typed Pod seven times as much, a
/// dynamic one ten times, a ConfigMap hardly more.
const FACTOR: usize = 8;

/// What the bodies of one informer share.
pub(crate) struct Shelf {
    budget: Budget,
    counters: Counters,
    quotes: bool,
    dictionary: RwLock<Option<Arc<Dictionary>>>,
    learning: Mutex<Learning>,
    types: Mutex<Vec<TypeId>>,
    /// How many bodies there are, those that only events hold included.
    bodies: AtomicUsize,
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

    /// How much memory an object takes decoded, about.
    pub(crate) fn charge<K: Object>(json: usize) -> usize {
        size_of::<K>() + json.saturating_mul(FACTOR)
    }

    /// The bit that stands for a type; none of types past the first few.
    pub(crate) fn bit(&self, of: TypeId) -> u8 {
        let mut types = self.types.lock();
        let number = types.iter().position(|known| *known == of);
        let number = number.unwrap_or_else(|| {
            types.push(of);
            types.len() - 1
        });
        u32::try_from(number)
            .ok()
            .and_then(|number| 1_u8.checked_shl(number))
            .unwrap_or(0)
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
