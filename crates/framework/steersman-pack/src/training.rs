//! Machine: decides when a dictionary is trained for a kind, and whether it is used.

use crate::samples::{PackRatio, Samples, TrainedDictionary};

/// The number of objects below which no dictionary is trained, because it would take more memory than it saves.
pub(crate) const FEW: usize = 200;
/// The number of packed objects in a window, after which the benefit of the dictionary is evaluated.
const WINDOW: usize = 1024;
/// After a useless training, the next one waits for this many times the current number of objects.
const LATER: usize = 4;
/// The maximal number of consecutive bad windows that a new training waits for.
const MOST_BAD_WINDOWS: u32 = 64;
/// The number of consecutive good windows after which a single bad window starts a training again.
const SETTLED: u32 = 8;

#[derive(Debug)]
pub(crate) struct TrainingPlan {
    stage: TrainingStage,
    window: Window,
    /// The pack ratio that the current dictionary should have.
    expected: Option<PackRatio>,
    /// Whether the samples were only arriving objects, before stored objects were sampled.
    is_early: bool,
    /// The expected pack ratio of a dictionary that stored objects must confirm.
    before: Option<PackRatio>,
    /// The number of consecutive bad windows, and the number that starts a training.
    worse: u32,
    bad_windows_allowed: u32,
    /// The number of consecutive good windows.
    well: u32,
}

#[derive(Debug)]
enum TrainingStage {
    /// No training before this number of objects; `None` means never.
    Waiting(Option<usize>),
    /// Arriving objects are sampled.
    Collecting(Samples),
    /// Badly packed new objects are sampled, up to half of the samples, because stored objects may have the old shape.
    Doubting(Samples),
    /// More arriving objects are sampled, until the other half is sampled from the store or the samples are enough.
    Mixing(Samples),
    /// Stored objects are being sampled.
    Completing,
    /// The samples are complete.
    Due(Samples),
    /// A training is running.
    Training,
    /// The kind has a dictionary.
    Learned,
}

#[derive(Debug, Default)]
struct Window {
    share: PackRatio,
    objects: usize,
}

impl TrainingPlan {
    /// Makes a plan. Without `trains`, no dictionary is ever trained, as for Secrets (PACK-4).
    pub(crate) fn new(trains: bool) -> Self {
        Self {
            stage: TrainingStage::Waiting(trains.then_some(FEW)),
            window: Window::default(),
            expected: None,
            is_early: false,
            before: None,
            worse: 0,
            bad_windows_allowed: 1,
            well: 0,
        }
    }

    /// Records a packed object; `objects` is the number of objects. Returns whether a training or a sampling is due.
    pub(crate) fn handle_packed(&mut self, json: &[u8], packed: usize, objects: usize) -> bool {
        match &mut self.stage {
            TrainingStage::Waiting(Some(until)) if objects >= *until => {
                self.stage = TrainingStage::Collecting(Samples::default());
                true
            }
            TrainingStage::Collecting(samples) | TrainingStage::Mixing(samples) => {
                samples.add(json);
                if samples.is_enough() {
                    self.stage = TrainingStage::Due(std::mem::take(samples));
                    self.is_early = true;
                    return true;
                }
                false
            }
            TrainingStage::Doubting(samples) => {
                samples.add(json);
                if samples.is_half() {
                    self.stage = TrainingStage::Mixing(std::mem::take(samples));
                    return true;
                }
                false
            }
            TrainingStage::Learned => {
                let Some(share) = self.window.put(json.len(), packed) else {
                    return false;
                };
                let worse = share.is_worse_than(self.expected.get_or_insert(share));
                if !worse {
                    self.worse = 0;
                    self.well += 1;
                    if self.well >= SETTLED {
                        self.bad_windows_allowed = 1;
                    }
                    return false;
                }
                self.worse += 1;
                self.well = 0;
                if self.worse >= self.bad_windows_allowed {
                    self.worse = 0;
                    self.stage = TrainingStage::Doubting(Samples::default());
                }
                false
            }
            TrainingStage::Waiting(_)
            | TrainingStage::Completing
            | TrainingStage::Due(_)
            | TrainingStage::Training => false,
        }
    }

    pub(crate) fn is_collecting(&self) -> bool {
        matches!(
            self.stage,
            TrainingStage::Collecting(_) | TrainingStage::Mixing(_) | TrainingStage::Completing
        )
    }

    /// Returns whether stored objects should be sampled now. The objects that arrived first may all be of one namespace
    /// and differ from the others (PACK-5).
    pub(crate) fn wants(&mut self) -> bool {
        if self.is_early && !matches!(self.stage, TrainingStage::Training) {
            if matches!(self.stage, TrainingStage::Learned) {
                self.before = self.expected;
            }
            self.stage = TrainingStage::Collecting(Samples::default());
        }
        self.is_early = false;
        self.is_collecting()
    }

    /// Returns whether [`wants`](Self::wants) may return true.
    pub(crate) fn may_want(&self) -> bool {
        self.is_early || self.is_collecting()
    }

    /// Returns whether stored objects must confirm the current dictionary.
    pub(crate) fn doubts(&self) -> bool {
        self.before.is_some()
    }

    /// Returns whether the dictionary is confirmed: whether it packs stored objects as well as its samples.
    pub(crate) fn confirms(&mut self, share: PackRatio) -> bool {
        let as_before = self
            .before
            .is_some_and(|before| !share.is_worse_than(&before));
        let confirmed = as_before && self.is_collecting();
        if confirmed {
            self.before = None;
            self.expected = Some(share);
            self.stage = TrainingStage::Learned;
        }
        confirmed
    }

    /// Takes the samples that were collected so far. The caller completes them.
    pub(crate) fn collected_samples(&mut self) -> Samples {
        match &mut self.stage {
            TrainingStage::Mixing(samples) => {
                let collected_samples = std::mem::take(samples);
                self.stage = TrainingStage::Completing;
                collected_samples
            }
            _ => Samples::default(),
        }
    }

    pub(crate) fn next_training(&mut self) -> Option<Samples> {
        match std::mem::replace(&mut self.stage, TrainingStage::Training) {
            TrainingStage::Due(samples) => Some(samples),
            other => {
                self.stage = other;
                None
            }
        }
    }

    pub(crate) fn handle_samples(&mut self, samples: Samples) {
        self.before = None;
        if self.is_collecting() {
            self.is_early = false;
            self.stage = TrainingStage::Due(samples);
        }
    }

    /// Drops the dictionary. The next training is tried at `until` objects.
    pub(crate) fn handle_dictionary_dropped(&mut self, until: usize) {
        self.stage = TrainingStage::Waiting(Some(until.max(FEW)));
        self.window = Window::default();
        (self.worse, self.well, self.bad_windows_allowed) = (0, 0, 1);
    }

    /// Ends a training. Returns the dictionary if it is to be used.
    pub(crate) fn handle_trained(
        &mut self,
        trained: Option<TrainedDictionary>,
        objects: usize,
        has_dictionary: bool,
    ) -> Option<TrainedDictionary> {
        self.window = Window::default();
        let trained = trained.filter(|trained| trained.is_worth_for(objects));
        self.stage = match (&trained, has_dictionary) {
            (Some(trained), _) => {
                self.expected = Some(trained.share);
                TrainingStage::Learned
            }
            // Each further training waits for more bad windows.
            (None, true) => TrainingStage::Learned,
            (None, false) => TrainingStage::Waiting(Some(objects.max(FEW) * LATER)),
        };
        // The samples may have differed from the stored objects.
        if has_dictionary {
            self.bad_windows_allowed = MOST_BAD_WINDOWS.min(2 * self.bad_windows_allowed);
        }
        trained
    }
}

impl Window {
    /// Adds an object to the window. Returns the pack ratio of a full window.
    fn put(&mut self, json: usize, packed: usize) -> Option<PackRatio> {
        self.share.add(json, packed);
        self.objects += 1;
        (self.objects >= WINDOW).then(|| std::mem::take(self).share)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::codec::{Codec, Dictionary};
    use crate::samples::tests::{alike, apart, others, samples, trained};
    use crate::samples::{ENOUGH, KEPT_BACK};

    /// Records these objects. Returns whether a training or sampling was due.
    fn note(
        training_plan: &mut TrainingPlan,
        objects: std::ops::Range<usize>,
        packed: usize,
    ) -> bool {
        let mut due = false;
        for number in objects {
            due |= training_plan.handle_packed(&alike(number), packed, number + 1);
        }
        due
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_many_similar_objects_get_a_dictionary() {
        let mut training_plan = TrainingPlan::new(true);
        assert!(!note(&mut training_plan, 0..FEW - 1, 300));
        assert!(training_plan.next_training().is_none());
        assert!(note(&mut training_plan, FEW - 1..FEW + ENOUGH, 300));
        let samples = training_plan.next_training().unwrap();
        assert_eq!(samples.each().count(), ENOUGH);
        // A training is running, so no other is due.
        assert!(
            training_plan.next_training().is_none() && !note(&mut training_plan, 600..9_000, 300)
        );
        let trained = samples.train(&Codec::default(), None).unwrap();
        assert!(trained.saves > 100, "{trained:?}");
        let min_bodies = training_plan.handle_trained(self::trained(alike, ENOUGH), FEW, false);
        assert!(min_bodies.is_none(), "it takes more than it saves");
        assert!(!note(&mut training_plan, FEW..FEW * LATER - 1, 300));
        assert!(note(&mut training_plan, FEW * LATER..FEW * LATER + 1, 300));
        assert!(
            training_plan
                .handle_trained(Some(trained), 50_000, false)
                .is_some()
        );
        assert!(self::trained(apart, ENOUGH).is_none());
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_a_dictionary_that_stops_helping_is_replaced() {
        let mut training_plan = TrainingPlan::new(true);
        let trained = training_plan
            .handle_trained(trained(alike, ENOUGH), 50_000, false)
            .unwrap();
        let usual = trained.share.packed / ENOUGH.div_ceil(KEPT_BACK);
        assert!(!note(&mut training_plan, 0..3 * WINDOW, usual));
        assert!(!note(&mut training_plan, 0..WINDOW, usual * 5 / 4));
        assert!(!note(&mut training_plan, 0..WINDOW, 2 * usual));
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
        assert!(training_plan.is_collecting());
        training_plan.handle_samples(Samples::default());
        assert!(training_plan.next_training().is_some());
        // A useless training delays the next one.
        assert!(training_plan.handle_trained(None, 50_000, true).is_none());
        assert!(!note(&mut training_plan, 0..2 * WINDOW, 2 * usual));
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
        // Without a store, the arriving objects are enough samples.
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
        assert!(training_plan.next_training().is_some() && training_plan.may_want());
        assert!(training_plan.handle_trained(None, 50_000, true).is_none());
        assert_eq!(training_plan.bad_windows_allowed, 4);
        // After enough good windows, a single bad window is enough again.
        let settled = usize::try_from(SETTLED).unwrap();
        assert!(!note(&mut training_plan, 0..settled * WINDOW, usual));
        assert!(!note(&mut training_plan, 0..WINDOW, 2 * usual));
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_a_new_shape_is_trained_while_most_stored_objects_have_the_old_one() {
        let codec = Codec::default();
        let mut training_plan = TrainingPlan::new(true);
        let old = training_plan
            .handle_trained(trained(alike, ENOUGH), 50_000, false)
            .unwrap();
        let old = Arc::new(old.dictionary);
        let arrive = |training_plan: &mut TrainingPlan, numbers: std::ops::Range<usize>| {
            let packed = |json: &[u8]| codec.pack(json, Some(&old)).size();
            numbers.fold(false, |due, number| {
                let json = others(number);
                training_plan.handle_packed(&json, packed(&json), 50_000) | due
            })
        };
        assert!(!arrive(&mut training_plan, 0..WINDOW));
        assert!(
            !training_plan.wants(),
            "what is stored says nothing of the new ones"
        );
        assert!(arrive(&mut training_plan, WINDOW..WINDOW + ENOUGH / 2));
        assert!(training_plan.wants());
        let mut mixed = training_plan.collected_samples();
        (0..ENOUGH).for_each(|number| mixed.add(&alike(number)));
        training_plan.handle_samples(mixed);
        let trained = training_plan
            .next_training()
            .unwrap()
            .train(&codec, Some(&old));
        let new = training_plan.handle_trained(trained, 50_000, true).unwrap();
        let new = Arc::new(new.dictionary);
        let held = |object: fn(usize) -> Vec<u8>, by: &Arc<Dictionary>| {
            let each = (9_000..9_050).map(|number| codec.pack(&object(number), Some(by)).size());
            each.sum::<usize>()
        };
        assert!(held(others, &new) * 3 < held(others, &old) * 2);
        assert!(held(alike, &new) * 4 < held(alike, &old) * 5);
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_useless_dictionaries_are_tried_ever_more_rarely() {
        let mut training_plan = TrainingPlan::new(true);
        let plain = alike(1).len();
        let mut trainings = 0;
        let mut has_dictionary = false;
        for _ in 0..1000 {
            trainings += 1;
            training_plan.handle_trained(trained(alike, ENOUGH), 50_000, has_dictionary);
            has_dictionary = true;
            let windows = (1..=200).find(|_| note(&mut training_plan, 0..WINDOW, plain));
            // The window after the bad ones brings the samples.
            assert_eq!(windows, Some(1 + (1 << (trainings - 1).min(6))));
            if trainings == 9 {
                break;
            }
        }
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_odd_first_objects_do_not_decide_the_dictionary() {
        // The first samples are odd, and give no dictionary, or one that packs no other objects. Later, all stored
        // objects are sampled.
        for odd in [apart as fn(usize) -> Vec<u8>, others] {
            let mut training_plan = TrainingPlan::new(true);
            for number in 0..FEW + ENOUGH {
                training_plan.handle_packed(&odd(number), 300, number + 1);
            }
            let early = training_plan.next_training().unwrap();
            let early = early.train(&Codec::default(), None);
            let early = training_plan.handle_trained(early, 20_000, false);
            assert!(!training_plan.is_collecting());
            assert!(training_plan.wants());
            let (codec, stored) = (Codec::default(), samples(alike));
            let present = early.map(|trained| Arc::new(trained.dictionary));
            let share = present.as_ref().map(|by| stored.packed(&codec, Some(by)));
            assert!(!share.is_some_and(|share| training_plan.confirms(share)));
            training_plan.handle_samples(stored);
            let late = training_plan
                .next_training()
                .unwrap()
                .train(&codec, present.as_ref());
            assert!(
                training_plan
                    .handle_trained(late, 20_000, present.is_some())
                    .is_some()
            );
            // Stored objects are sampled once only.
            assert!(!training_plan.wants());
        }
    }

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_typical_first_objects_need_no_second_training() {
        let mut training_plan = TrainingPlan::new(true);
        note(&mut training_plan, 0..FEW + ENOUGH, 300);
        let codec = Codec::default();
        let early = training_plan.next_training().unwrap().train(&codec, None);
        let early = training_plan.handle_trained(early, 20_000, false).unwrap();
        assert!(training_plan.wants() && training_plan.doubts());
        let stored = samples(alike);
        let share = stored.packed(&codec, Some(&Arc::new(early.dictionary)));
        assert!(training_plan.confirms(share));
        assert!(training_plan.next_training().is_none() && !training_plan.wants());
        let usual = share.packed / ENOUGH;
        assert!(!note(&mut training_plan, 0..3 * WINDOW, usual));
    }

    // PACK-4: no dictionary is trained on Secrets.
    #[test]
    fn pack_4_no_dictionary_is_trained_with_secrets() {
        let mut training_plan = TrainingPlan::new(false);
        assert!(!note(&mut training_plan, 0..4 * ENOUGH, 300));
        assert!(!training_plan.wants());
        training_plan.handle_samples(Samples::default());
        assert!(training_plan.next_training().is_none());
    }
}
