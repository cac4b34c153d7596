//! Handle: the state that the bodies of one kind share: the dictionary, the budget, and decoded sizes by type.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;

use crate::budget::Budget;
use crate::codec::{Broken, Dictionary, Packed};
use crate::samples::{PackRatio, Samples, TrainedDictionary, spread};
use crate::training::{FEW, TrainingPlan};
use crate::weight::weigh;

/// The assumed size of a decoded object before one was measured, as a multiple of its JSON.
const FACTOR: usize = 8;
/// The number of objects of a type that are all measured; later, one in `SAMPLED` is.
const FIRST: u32 = 4;
const SAMPLED: u32 = 64;
/// The bytes of measured JSON after which the earlier measurements count half.
const REMEMBERED: usize = 4 << 20;

/// The state that the bodies of one kind share.
#[derive(derive_more::Debug)]
#[debug("PackContext {{ .. }}")]
pub struct PackContext {
    budget: Budget,
    dictionary: RwLock<Option<Arc<Dictionary>>>,
    training_plan: Mutex<TrainingPlan>,
    types: Mutex<Vec<TypeWeight>>,
    /// The number of bodies, including those that only events hold.
    bodies: AtomicUsize,
    /// The number of bodies below which the dictionary is dropped; 0 if there is no dictionary.
    min_bodies: AtomicUsize,
}

struct TypeWeight {
    of: TypeId,
    seen: u32,
    /// The total JSON and the total memory of the measured objects, in bytes.
    json: usize,
    bytes: usize,
}

impl PackContext {
    /// Makes the context for the bodies of one kind. Without `trains`, as for Secrets, it has no dictionary (PACK-4).
    pub fn new(budget: Budget, trains: bool) -> Self {
        Self {
            budget,
            dictionary: RwLock::default(),
            training_plan: Mutex::new(TrainingPlan::new(trains)),
            types: Mutex::default(),
            bodies: AtomicUsize::new(0),
            min_bodies: AtomicUsize::new(0),
        }
    }

    /// Returns the budget of the decoded forms.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Counts a new body.
    pub fn add_body(&self) {
        self.bodies.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a dropped body.
    pub fn remove_body(&self) {
        self.bodies.fetch_sub(1, Ordering::Relaxed);
    }

    // ----- packing -----

    /// Packs JSON with the current dictionary, if any. The boolean is whether training is due.
    pub fn pack(&self, json: &[u8]) -> (Packed, bool) {
        let dictionary = self.dictionary.read().clone();
        let packed = self.budget.codec().pack(json, dictionary.as_ref());
        let bodies = self.bodies.load(Ordering::Relaxed);
        let due = self
            .training_plan
            .lock()
            .handle_packed(json, packed.size(), bodies);
        (packed, due)
    }

    /// Packs a body again if its dictionary is outdated, so that this can be dropped, or if it has none and the current
    /// one packs it better (PACK-5).
    pub fn repack(&self, packed: &Packed) -> Option<Packed> {
        let dictionary = self.dictionary.read().clone();
        if !is_outdated(packed, dictionary.as_ref()) {
            return None;
        }
        let codec = self.budget.codec();
        let again = codec.unpack(packed, |json| codec.pack(json, dictionary.as_ref()));
        let frees = packed.dictionary().is_some();
        again
            .ok()
            .filter(|again| frees || again.size() < packed.size())
    }

    /// Calls `look` with the unpacked JSON.
    ///
    /// # Errors
    ///
    /// [`Broken`] if the bytes cannot be unpacked: out of memory, or packed with another dictionary.
    pub fn unpack<R>(&self, packed: &Packed, look: impl FnOnce(&[u8]) -> R) -> Result<R, Broken> {
        self.budget.codec().unpack(packed, look)
    }

    // ----- learning -----

    /// Returns whether the kind has a dictionary.
    pub fn has_dictionary(&self) -> bool {
        self.dictionary.read().is_some()
    }

    /// Returns the samples to train with and the current dictionary, if training is due.
    pub fn samples(&self) -> Option<(Samples, Option<Arc<Dictionary>>)> {
        let dictionary = self.dictionary.read().clone();
        let samples = self.training_plan.lock().next_training()?;
        Some((samples, dictionary))
    }

    /// Returns whether samples of stored objects may be needed.
    pub fn wants_samples(&self) -> bool {
        self.training_plan.lock().may_want()
    }

    /// Returns the positions of the stored objects to sample, if samples are needed.
    pub fn sample_positions(
        &self,
        stored: usize,
    ) -> Option<impl Iterator<Item = usize> + Clone + use<>> {
        let wanted = stored >= FEW && self.training_plan.lock().wants();
        wanted.then(|| spread(stored))
    }

    /// Returns the current dictionary if it must be tested with stored objects.
    pub fn doubted_dictionary(&self) -> Option<Arc<Dictionary>> {
        let doubts = self.training_plan.lock().doubts();
        self.dictionary.read().clone().filter(|_| doubts)
    }

    /// Packs the JSON of an object with a dictionary, and adds the sizes before and after to `share`.
    pub fn try_on(&self, by: &Arc<Dictionary>, json: &[u8], share: &mut PackRatio) {
        share.add(json.len(), self.budget.codec().pack(json, Some(by)).size());
    }

    /// Returns whether the result of a test with stored objects confirms the dictionary.
    pub fn confirms(&self, share: PackRatio) -> bool {
        self.training_plan.lock().confirms(share)
    }

    /// Takes the samples that were collected so far.
    pub fn collected_samples(&self) -> Samples {
        self.training_plan.lock().collected_samples()
    }

    /// Sets the samples, completed with those of stored objects.
    pub fn complete(&self, samples: Samples) {
        self.training_plan.lock().handle_samples(samples);
    }

    /// Ends a training, and starts to use the trained dictionary, if any.
    pub fn finish_training(&self, trained: Option<TrainedDictionary>) {
        let mut dictionary = self.dictionary.write();
        let bodies = self.bodies.load(Ordering::Relaxed);
        let (mut training_plan, known) = (self.training_plan.lock(), dictionary.is_some());
        if let Some(new) = training_plan.handle_trained(trained, bodies, known) {
            self.min_bodies.store(new.min_bodies(), Ordering::Relaxed);
            *dictionary = Some(Arc::new(new.dictionary));
        }
    }

    /// Returns whether the kind has too few bodies for its dictionary.
    pub fn is_dictionary_unused(&self) -> bool {
        self.bodies.load(Ordering::Relaxed) < self.min_bodies.load(Ordering::Relaxed)
    }

    /// Drops the dictionary if the kind has too few bodies. If it returns true, the caller packs its bodies again.
    pub fn drop_unused_dictionary(&self) -> bool {
        if !self.is_dictionary_unused() {
            return false;
        }
        let mut dictionary = self.dictionary.write();
        let min_bodies = self.min_bodies.swap(0, Ordering::Relaxed);
        // With this many bodies, a new dictionary is worth its memory.
        self.training_plan
            .lock()
            .handle_dictionary_dropped(4 * min_bodies);
        dictionary.take().is_some()
    }

    // ----- types -----

    /// Returns the estimated memory of a `K` decoded from this JSON, by earlier measurements of the type.
    pub fn charge<K: DeserializeOwned + 'static>(&self, json: &[u8]) -> usize {
        let (number, weighs) = {
            let mut types = self.types.lock();
            let number = number_of(&mut types, TypeId::of::<K>());
            let known = &mut types[number];
            known.seen = known.seen.wrapping_add(1);
            let sampled = known.seen <= FIRST || known.seen.is_multiple_of(SAMPLED);
            // With a limit of 0 nothing is cached, so measuring is useless.
            (number, sampled && self.budget.limit() != Some(0))
        };
        // A user's `Deserialize` runs without the lock.
        let bytes = if weighs { weigh::<K>(json) } else { None };
        let mut types = self.types.lock();
        // The index is valid, because types are never removed.
        let known = &mut types[number];
        if let Some(bytes) = bytes {
            known.weigh(json.len(), bytes);
        }
        known.charge(json.len())
    }

    /// Returns the bit of a type in a bit set; 0 for all types after the first eight.
    pub fn type_bit(&self, of: TypeId) -> u8 {
        let number = number_of(&mut self.types.lock(), of);
        u32::try_from(number)
            .ok()
            .and_then(|number| 1_u8.checked_shl(number))
            .unwrap_or(0)
    }
}

/// Returns whether a body was packed with another dictionary than the current one. A fresh body does not count: its
/// ingesting thread packs it (PACK-6).
fn is_outdated(packed: &Packed, dictionary: Option<&Arc<Dictionary>>) -> bool {
    match (packed.dictionary(), dictionary) {
        _ if matches!(packed, Packed::Fresh(_)) => false,
        (None, known) => known.is_some(),
        (Some(_), None) => true,
        (Some(by), Some(known)) => !Arc::ptr_eq(by, known),
    }
}

fn number_of(types: &mut Vec<TypeWeight>, of: TypeId) -> usize {
    let known = types.iter().position(|known| known.of == of);
    known.unwrap_or_else(|| {
        types.push(TypeWeight {
            of,
            seen: 0,
            json: 0,
            bytes: 0,
        });
        types.len() - 1
    })
}

impl TypeWeight {
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
mod tests {
    use super::*;
    use crate::samples::tests::{alike, others, trained};

    fn of(bodies: usize) -> PackContext {
        let context = PackContext::new(Budget::default(), true);
        (0..bodies).for_each(|_| context.add_body());
        context
    }

    fn dictionary(context: &PackContext) -> Arc<Dictionary> {
        context.dictionary.read().clone().unwrap()
    }

    /// Packs all bodies again that can be packed better.
    fn repack(context: &PackContext, all: &mut [Packed]) {
        for packed in all {
            if let Some(again) = context.repack(packed) {
                *packed = again;
            }
        }
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_bodies_of_an_old_dictionary_are_packed_again_and_it_is_dropped() {
        let context = of(50_000);
        let mut all: Vec<Packed> = (0..3).map(|at| context.pack(&alike(at)).0).collect();
        context.finish_training(trained(alike, 300));
        let first = Arc::downgrade(&dictionary(&context));
        all.extend((3..30).map(|at| context.pack(&alike(at)).0));
        all.extend((30..60).map(|at| context.pack(&others(at)).0));
        context.finish_training(trained(others, 300));
        assert!(first.upgrade().is_some());
        repack(&context, &mut all);
        let newest = dictionary(&context);
        for packed in &all[3..] {
            assert!(
                packed
                    .dictionary()
                    .is_some_and(|by| Arc::ptr_eq(by, &newest))
            );
            assert!(context.repack(packed).is_none());
        }
        assert!(first.upgrade().is_none());
        let json = context.unpack(&all[40], <[u8]>::to_vec).unwrap();
        assert_eq!(json, others(40));
        // A fresh body is not packed by `repack`.
        let fresh = Packed::Fresh(Arc::new(json.into_boxed_slice()));
        assert!(context.repack(&fresh).is_none());
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_a_dictionary_is_dropped_after_most_of_its_objects() {
        let context = of(50_000);
        context.finish_training(trained(alike, 300));
        let first = Arc::downgrade(&dictionary(&context));
        let mut all: Vec<Packed> = (0..10).map(|at| context.pack(&alike(at)).0).collect();
        assert!(!context.is_dictionary_unused() && !context.drop_unused_dictionary());
        (0..49_990).for_each(|_| context.remove_body());
        assert!(context.is_dictionary_unused() && context.drop_unused_dictionary());
        assert!(!context.is_dictionary_unused() && !context.drop_unused_dictionary());
        repack(&context, &mut all);
        assert!(first.upgrade().is_none());
        assert_eq!(context.unpack(&all[7], <[u8]>::to_vec).unwrap(), alike(7));
        assert!(!context.pack(&alike(10)).1);
        // When enough objects are back, training is due again.
        (0..49_990).for_each(|_| context.add_body());
        assert!(context.pack(&alike(10)).1);
    }
}
