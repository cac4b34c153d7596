//! Machine: when a kind gets a dictionary, and whether that is worth having.

use crate::pack::samples::{PackRatio, Samples, TrainedDictionary};

/// Of fewer objects than these nothing is learned: what could be saved is less than a dictionary takes.
pub(crate) const FEW: usize = 200;
/// After so many objects it is seen how well they were packed.
const WINDOW: usize = 1024;
/// Where training was of no use, it is tried again once there are so many times the objects.
const LATER: usize = 4;
/// After so many windows in turn that were packed badly another dictionary is made, however often that was
/// of no use before.
const PATIENCE: u32 = 64;
/// After so many windows in turn that were packed as was expected, the next bad one is no more of the same.
const SETTLED: u32 = 8;

/// When to train.
#[derive(Debug)]
pub(crate) struct TrainingPlan {
    stage: Stage,
    window: Window,
    /// How well the dictionary is expected to pack, where there is one.
    expected: Option<PackRatio>,
    /// What is known was learned of what arrived, and nobody has looked at what is stored.
    is_early: bool,
    /// What it came to then, while somebody looks.
    before: Option<PackRatio>,
    /// How many windows in turn were packed badly, and how many have to be for another dictionary.
    worse: u32,
    patience: u32,
    /// How many in turn were packed as was expected.
    well: u32,
}

#[derive(Debug)]
enum Stage {
    /// Until there are so many objects, or for good.
    Waiting(Option<usize>),
    /// What arrives is looked at.
    Collecting(Samples),
    /// The same, where the dictionary packs it badly, until it is half of what is learned of: what is stored
    /// may be as it was for long.
    Doubting(Samples),
    /// That half and more of it, until what is stored is looked at for the other one; there may be no store
    /// yet, and then it is all that there is.
    Mixing(Samples),
    /// Somebody looks at what is stored.
    Completing,
    /// There is enough to learn from.
    Due(Samples),
    /// Somebody is at it.
    Training,
    /// There is a dictionary.
    Learned,
}

#[derive(Debug, Default)]
struct Window {
    share: PackRatio,
    objects: usize,
}

// ===== impl Learning =====

impl TrainingPlan {
    /// `trains` says whether anything may be learned of the objects at all: nothing of a Secret is put
    /// where another's bytes are (PACK-4).
    pub(crate) fn new(trains: bool) -> Self {
        Self {
            stage: Stage::Waiting(trains.then_some(FEW)),
            window: Window::default(),
            expected: None,
            is_early: false,
            before: None,
            worse: 0,
            patience: 1,
            well: 0,
        }
    }

    /// Takes note of an object that was packed, one of so many; says whether there is something to do:
    /// to train, or to look for samples.
    pub(crate) fn note(&mut self, json: &[u8], packed: usize, objects: usize) -> bool {
        match &mut self.stage {
            Stage::Waiting(Some(until)) if objects >= *until => {
                self.stage = Stage::Collecting(Samples::default());
                true
            }
            Stage::Collecting(samples) | Stage::Mixing(samples) => {
                samples.add(json);
                if samples.is_enough() {
                    self.stage = Stage::Due(std::mem::take(samples));
                    self.is_early = true;
                    return true;
                }
                false
            }
            Stage::Doubting(samples) => {
                samples.add(json);
                if samples.is_half() {
                    self.stage = Stage::Mixing(std::mem::take(samples));
                    return true;
                }
                false
            }
            Stage::Learned => {
                let Some(share) = self.window.put(json.len(), packed) else {
                    return false;
                };
                let worse = share.is_worse_than(self.expected.get_or_insert(share));
                if !worse {
                    self.worse = 0;
                    self.well += 1;
                    if self.well >= SETTLED {
                        self.patience = 1;
                    }
                    return false;
                }
                self.worse += 1;
                self.well = 0;
                if self.worse >= self.patience {
                    self.worse = 0;
                    self.stage = Stage::Doubting(Samples::default());
                }
                false
            }
            Stage::Waiting(_) | Stage::Completing | Stage::Due(_) | Stage::Training => false,
        }
    }

    /// Whether somebody waits for more samples than came by themselves.
    pub(crate) fn is_collecting(&self) -> bool {
        matches!(
            self.stage,
            Stage::Collecting(_) | Stage::Mixing(_) | Stage::Completing
        )
    }

    /// Whether samples of what is stored are wanted, now that there is a store: what arrived first may be of
    /// one namespace and like nothing else (PACK-5).
    pub(crate) fn wants(&mut self) -> bool {
        if self.is_early && !matches!(self.stage, Stage::Training) {
            if matches!(self.stage, Stage::Learned) {
                self.before = self.expected;
            }
            self.stage = Stage::Collecting(Samples::default());
        }
        self.is_early = false;
        self.is_collecting()
    }

    /// Whether [`wants`](Self::wants) would say so.
    pub(crate) fn may_want(&self) -> bool {
        self.is_early || self.is_collecting()
    }

    /// Whether it matters how well the present dictionary packs what is stored.
    pub(crate) fn doubts(&self) -> bool {
        self.before.is_some()
    }

    /// The present dictionary left so much of what is stored: whether that is as it was of what it was learned
    /// of, and there is nothing more to do.
    pub(crate) fn confirms(&mut self, share: PackRatio) -> bool {
        let as_before = self
            .before
            .is_some_and(|before| !share.is_worse_than(&before));
        let confirmed = as_before && self.is_collecting();
        if confirmed {
            self.before = None;
            self.expected = Some(share);
            self.stage = Stage::Learned;
        }
        confirmed
    }

    /// What there is already of the samples that somebody is about to complete.
    pub(crate) fn collected_samples(&mut self) -> Samples {
        match &mut self.stage {
            Stage::Mixing(samples) => {
                let collected_samples = std::mem::take(samples);
                self.stage = Stage::Completing;
                collected_samples
            }
            _ => Samples::default(),
        }
    }

    /// The samples to train with, where it is time to.
    pub(crate) fn begin(&mut self) -> Option<Samples> {
        match std::mem::replace(&mut self.stage, Stage::Training) {
            Stage::Due(samples) => Some(samples),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// These are all the samples there are: time to train with them.
    pub(crate) fn complete(&mut self, samples: Samples) {
        self.before = None;
        if self.is_collecting() {
            self.is_early = false;
            self.stage = Stage::Due(samples);
        }
    }

    /// The dictionary is given up; there may be use for one where there are so many objects.
    pub(crate) fn drop_dictionary(&mut self, until: usize) {
        self.stage = Stage::Waiting(Some(until.max(FEW)));
        self.window = Window::default();
        (self.worse, self.well, self.patience) = (0, 0, 1);
    }

    /// What training came to, of a kind that has so many objects and a dictionary or none. Answers the
    /// lesson whose dictionary is to be used from now on, where it is a new one.
    pub(crate) fn end(
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
                Stage::Learned
            }
            // It is tried again, each time later, where objects go on to be packed worse than was expected.
            (None, true) => Stage::Learned,
            (None, false) => Stage::Waiting(Some(objects.max(FEW) * LATER)),
        };
        // What arrives may be like nothing of what is stored for good.
        if has_dictionary {
            self.patience = PATIENCE.min(2 * self.patience);
        }
        trained
    }
}

impl Window {
    /// What packing left of the objects of a window, at its end.
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
    use crate::pack::codec::{Codec, Dictionary};
    use crate::pack::samples::tests::{alike, apart, others, samples, trained};
    use crate::pack::samples::{ENOUGH, KEPT_BACK};

    /// Puts in so many objects; says whether there was something to do at any of them.
    fn note(
        training_plan: &mut TrainingPlan,
        objects: std::ops::Range<usize>,
        packed: usize,
    ) -> bool {
        let mut due = false;
        for number in objects {
            due |= training_plan.note(&alike(number), packed, number + 1);
        }
        due
    }

    // PACK-5
    #[test]
    fn pack_5_a_dictionary_is_had_where_objects_are_many_and_alike() {
        let mut training_plan = TrainingPlan::new(true);
        assert!(!note(&mut training_plan, 0..FEW - 1, 300));
        assert!(training_plan.begin().is_none());
        assert!(note(&mut training_plan, FEW - 1..FEW + ENOUGH, 300));
        let samples = training_plan.begin().unwrap();
        assert_eq!(samples.each().count(), ENOUGH);
        // Somebody is at it.
        assert!(training_plan.begin().is_none() && !note(&mut training_plan, 600..9_000, 300));
        let trained = samples.train(&Codec::default(), None).unwrap();
        assert!(trained.saves > 100, "{trained:?}");
        let min_bodies = training_plan.end(self::trained(alike, ENOUGH), FEW, false);
        assert!(min_bodies.is_none(), "it takes more than it saves");
        assert!(!note(&mut training_plan, FEW..FEW * LATER - 1, 300));
        assert!(note(&mut training_plan, FEW * LATER..FEW * LATER + 1, 300));
        assert!(training_plan.end(Some(trained), 50_000, false).is_some());
        assert!(self::trained(apart, ENOUGH).is_none());
    }

    // PACK-5
    #[test]
    fn pack_5_what_packs_no_longer_as_it_did_is_learned_anew() {
        let mut training_plan = TrainingPlan::new(true);
        let trained = training_plan
            .end(trained(alike, ENOUGH), 50_000, false)
            .unwrap();
        let usual = trained.share.packed / ENOUGH.div_ceil(KEPT_BACK);
        assert!(!note(&mut training_plan, 0..3 * WINDOW, usual));
        assert!(!note(&mut training_plan, 0..WINDOW, usual * 5 / 4));
        assert!(!note(&mut training_plan, 0..WINDOW, 2 * usual));
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
        assert!(training_plan.is_collecting());
        training_plan.complete(Samples::default());
        assert!(training_plan.begin().is_some());
        // Nothing better is to be had: it is tried again, but later.
        assert!(training_plan.end(None, 50_000, true).is_none());
        assert!(!note(&mut training_plan, 0..2 * WINDOW, 2 * usual));
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
        // Nobody looks at what is stored, as nothing is yet: what arrives is enough.
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
        assert!(training_plan.begin().is_some() && training_plan.may_want());
        assert!(training_plan.end(None, 50_000, true).is_none());
        assert_eq!(training_plan.patience, 4);
        // Where all is well for a while, it is as at first.
        let settled = usize::try_from(SETTLED).unwrap();
        assert!(!note(&mut training_plan, 0..settled * WINDOW, usual));
        assert!(!note(&mut training_plan, 0..WINDOW, 2 * usual));
        assert!(note(&mut training_plan, 0..ENOUGH / 2, 2 * usual));
    }

    // PACK-5
    #[test]
    fn pack_5_a_new_shape_is_learned_while_most_of_what_is_stored_has_the_old_one() {
        let codec = Codec::default();
        let mut training_plan = TrainingPlan::new(true);
        let old = training_plan
            .end(trained(alike, ENOUGH), 50_000, false)
            .unwrap();
        let old = Arc::new(old.dictionary);
        let arrive = |training_plan: &mut TrainingPlan, numbers: std::ops::Range<usize>| {
            let packed = |json: &[u8]| codec.pack(json, Some(&old)).size();
            numbers.fold(false, |due, number| {
                let json = others(number);
                training_plan.note(&json, packed(&json), 50_000) | due
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
        training_plan.complete(mixed);
        let trained = training_plan.begin().unwrap().train(&codec, Some(&old));
        let new = training_plan.end(trained, 50_000, true).unwrap();
        let new = Arc::new(new.dictionary);
        let held = |object: fn(usize) -> Vec<u8>, by: &Arc<Dictionary>| {
            let each = (9_000..9_050).map(|number| codec.pack(&object(number), Some(by)).size());
            each.sum::<usize>()
        };
        assert!(held(others, &new) * 3 < held(others, &old) * 2);
        assert!(held(alike, &new) * 4 < held(alike, &old) * 5);
    }

    // PACK-5
    #[test]
    fn pack_5_a_dictionary_that_helps_nobody_from_the_first_is_seen_and_not_tried_for_ever() {
        let mut training_plan = TrainingPlan::new(true);
        let plain = alike(1).len();
        let mut trainings = 0;
        let mut has_dictionary = false;
        for _ in 0..1000 {
            trainings += 1;
            training_plan.end(trained(alike, ENOUGH), 50_000, has_dictionary);
            has_dictionary = true;
            let windows = (1..=200).find(|_| note(&mut training_plan, 0..WINDOW, plain));
            // The one after them brings the samples.
            assert_eq!(windows, Some(1 + (1 << (trainings - 1).min(6))));
            if trainings == 9 {
                break;
            }
        }
    }

    // PACK-5
    #[test]
    fn pack_5_what_arrived_first_and_was_odd_does_not_settle_it() {
        // Nothing came of them, or a dictionary that packs none of the others; once they are stored, samples
        // of all are taken.
        for odd in [apart as fn(usize) -> Vec<u8>, others] {
            let mut training_plan = TrainingPlan::new(true);
            for number in 0..FEW + ENOUGH {
                training_plan.note(&odd(number), 300, number + 1);
            }
            let early = training_plan.begin().unwrap();
            let early = early.train(&Codec::default(), None);
            let early = training_plan.end(early, 20_000, false);
            assert!(!training_plan.is_collecting());
            assert!(training_plan.wants());
            let (codec, stored) = (Codec::default(), samples(alike));
            let present = early.map(|trained| Arc::new(trained.dictionary));
            let share = present.as_ref().map(|by| stored.packed(&codec, Some(by)));
            assert!(!share.is_some_and(|share| training_plan.confirms(share)));
            training_plan.complete(stored);
            let late = training_plan
                .begin()
                .unwrap()
                .train(&codec, present.as_ref());
            assert!(training_plan.end(late, 20_000, present.is_some()).is_some());
            // Once is enough.
            assert!(!training_plan.wants());
        }
    }

    // PACK-5
    #[test]
    fn pack_5_what_arrived_first_and_was_like_the_rest_is_not_learned_twice() {
        let mut training_plan = TrainingPlan::new(true);
        note(&mut training_plan, 0..FEW + ENOUGH, 300);
        let codec = Codec::default();
        let early = training_plan.begin().unwrap().train(&codec, None);
        let early = training_plan.end(early, 20_000, false).unwrap();
        assert!(training_plan.wants() && training_plan.doubts());
        let stored = samples(alike);
        let share = stored.packed(&codec, Some(&Arc::new(early.dictionary)));
        assert!(training_plan.confirms(share));
        assert!(training_plan.begin().is_none() && !training_plan.wants());
        let usual = share.packed / ENOUGH;
        assert!(!note(&mut training_plan, 0..3 * WINDOW, usual));
    }

    // PACK-4
    #[test]
    fn pack_4_nothing_is_learned_of_secrets() {
        let mut training_plan = TrainingPlan::new(false);
        assert!(!note(&mut training_plan, 0..4 * ENOUGH, 300));
        assert!(!training_plan.wants());
        training_plan.complete(Samples::default());
        assert!(training_plan.begin().is_none());
    }
}
