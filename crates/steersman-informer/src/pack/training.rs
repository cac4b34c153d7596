//! Machine: when a kind gets a dictionary, of which samples, and whether that is worth having.

use std::sync::Arc;

use crate::pack::codec::{Dictionary, Tools};

/// Of fewer objects than these nothing is learned: what could be saved is less than a dictionary takes.
pub(crate) const FEW: usize = 200;
/// So many objects are looked at to learn.
pub(crate) const ENOUGH: usize = 300;
/// Or so many bytes of them.
const ENOUGH_BYTES: usize = 4 << 20;
/// The largest dictionary. Past this it saves little more.
const LARGEST: usize = 64 << 10;
/// A dictionary is smaller than its samples by this factor at least: one that holds them all has learned
/// nothing.
const SAMPLES_PER_BYTE: usize = 10;
/// Objects are alike where a few of them, as they are, leave less than one in so many bytes of others. Training
/// would save little more of these, and takes a tenth of a second and 17 MB for it, of which an allocator
/// keeps half.
const ALIKE: usize = 10;
/// Of so many samples one is kept back, to see what the dictionary does for what it does not know.
pub(crate) const KEPT_BACK: usize = 4;
/// After so many objects it is seen how well they were packed.
const WINDOW: usize = 1024;
/// Where training was of no use, it is tried again once there are so many times the objects.
const LATER: usize = 4;
/// After so many windows in turn that were packed badly another dictionary is made, however often that was
/// of no use before.
const PATIENCE: u32 = 64;
/// The samples of a store are looked at in an order that is all over it from the first few on.
const SPREAD: usize = 7919;

/// Objects to learn from.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

/// What training came to.
#[derive(Debug)]
pub(crate) struct Lesson {
    pub(crate) dictionary: Dictionary,
    /// What it saves of each object, in bytes.
    saves: usize,
    /// What it left of objects that it does not know.
    share: Share,
}

/// When to train.
#[derive(Debug)]
pub(crate) struct Learning {
    stage: Stage,
    window: Window,
    /// What is known was learned of what arrived, and nobody has looked at what is stored.
    is_early: bool,
    /// What it came to then, while somebody looks.
    before: Option<Share>,
    /// How many windows in turn were packed badly, and how many have to be for another dictionary.
    worse: u32,
    patience: u32,
}

#[derive(Debug)]
enum Stage {
    /// Until there are so many objects, or for good.
    Waiting(Option<usize>),
    /// What arrives is looked at.
    Collecting(Samples),
    /// There is enough to learn from.
    Due(Samples),
    /// Somebody is at it.
    Training,
    /// There is a dictionary; how well it packs, as soon as that is known.
    Learned(Option<Share>),
}

/// What packing left of so many bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    json: usize,
    packed: usize,
}

#[derive(Debug, Default)]
struct Window {
    share: Share,
    objects: usize,
}

/// Of which of so many stored objects samples are wanted: of all over.
pub(crate) fn spread(stored: usize) -> impl Iterator<Item = usize> + Clone {
    let count = stored.min(ENOUGH);
    // It is a prime, so each is met once.
    (0..count).map(move |number| number * SPREAD % count * stored / count)
}

// ===== impl Samples =====

impl Samples {
    pub(crate) fn add(&mut self, json: &[u8]) {
        if json.is_empty() || self.is_enough() {
            return;
        }
        self.bytes.extend_from_slice(json);
        self.sizes.push(json.len());
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.sizes.len() >= ENOUGH || self.bytes.len() >= ENOUGH_BYTES
    }

    /// Learns a dictionary, where it would pack by a fifth better than none, and as well as the present one.
    /// It may take long: a tenth of a second and more.
    pub(crate) fn train(&self, tools: &Tools, present: Option<&Arc<Dictionary>>) -> Option<Lesson> {
        let (known, unknown) = self.parted();
        let size = LARGEST.min(known.bytes.len() / SAMPLES_PER_BYTE);
        let tried = |bytes: &[u8]| {
            let dictionary = Arc::new(Dictionary::new(bytes)?);
            let share = unknown.packed(tools, Some(&dictionary));
            Some((dictionary, share))
        };
        let mut best = tried(&known.some(size / 2))?;
        if best.1.packed * ALIKE > best.1.json {
            let mut trained = Vec::with_capacity(size);
            let done = zstd_safe::train_from_buffer(&mut trained, &known.bytes, &known.sizes);
            let trained = done.ok().and_then(|_| tried(&trained));
            best = trained
                .filter(|trained| trained.1.packed < best.1.packed)
                .unwrap_or(best);
        }
        let (dictionary, share) = best;
        let without = unknown.packed(tools, None).packed;
        let with = share.packed;
        if present.is_some_and(|present| unknown.packed(tools, Some(present)).packed < with) {
            return None;
        }
        // What was packed with it here is gone again.
        let dictionary = Arc::into_inner(dictionary)?;
        let saves = without.saturating_sub(with) / unknown.sizes.len().max(1);
        (with * 5 <= without * 4).then_some(Lesson {
            dictionary,
            saves,
            share,
        })
    }

    fn packed(&self, tools: &Tools, by: Option<&Arc<Dictionary>>) -> Share {
        let mut share = Share::default();
        for json in self.each() {
            share.add(json.len(), tools.pack(json, by).held());
        }
        share
    }

    /// Some of them from all over, as they are: what fits of these, and the beginning of the first at least.
    fn some(&self, bytes: usize) -> Vec<u8> {
        let many = self.sizes.len() * bytes / self.bytes.len().max(1);
        let step = self.sizes.len().div_ceil(many.max(1)).max(1);
        let mut some = Vec::with_capacity(bytes);
        for json in self.each().step_by(step) {
            if some.is_empty() {
                some.extend_from_slice(&json[..json.len().min(bytes)]);
            } else if some.len() + json.len() <= bytes {
                some.extend_from_slice(json);
            }
        }
        some
    }

    /// Those to learn from, and those to try it on.
    fn parted(&self) -> (Self, Self) {
        let (mut known, mut unknown) = (Self::default(), Self::default());
        for (number, json) in self.each().enumerate() {
            let part = if number % KEPT_BACK == 0 {
                &mut unknown
            } else {
                &mut known
            };
            part.add(json);
        }
        (known, unknown)
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.sizes.iter().map(move |size| {
            let (one, others) = rest.split_at(*size);
            rest = others;
            one
        })
    }
}

impl Lesson {
    /// Whether it saves more of so many objects than it takes.
    fn is_worth(&self, objects: usize) -> bool {
        self.saves.saturating_mul(objects) > 2 * self.dictionary.size()
    }

    /// Of fewer objects than these it saves only half of what it takes.
    pub(crate) fn few(&self) -> usize {
        self.dictionary.size() / 2 / self.saves.max(1)
    }
}

// ===== impl Learning =====

impl Learning {
    /// `trains` says whether anything may be learned of the objects at all: nothing of a Secret is put
    /// where another's bytes are (PACK-4).
    pub(crate) fn new(trains: bool) -> Self {
        Self {
            stage: Stage::Waiting(trains.then_some(FEW)),
            window: Window::default(),
            is_early: false,
            before: None,
            worse: 0,
            patience: 1,
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
            Stage::Collecting(samples) => {
                samples.add(json);
                if samples.is_enough() {
                    self.stage = Stage::Due(std::mem::take(samples));
                    self.is_early = true;
                    return true;
                }
                false
            }
            Stage::Learned(expected) => {
                let Some(share) = self.window.put(json.len(), packed) else {
                    return false;
                };
                let worse = share.is_worse_than(expected.get_or_insert(share));
                self.worse = if worse { self.worse + 1 } else { 0 };
                let due = self.worse >= self.patience;
                if due {
                    self.worse = 0;
                    self.stage = Stage::Collecting(Samples::default());
                }
                due
            }
            Stage::Waiting(_) | Stage::Due(_) | Stage::Training => false,
        }
    }

    /// Whether somebody waits for more samples than came by themselves.
    pub(crate) fn is_collecting(&self) -> bool {
        matches!(self.stage, Stage::Collecting(_))
    }

    /// Whether samples of what is stored are wanted, now that there is a store: what arrived first may be of
    /// one namespace and like nothing else (PACK-5).
    pub(crate) fn wants(&mut self) -> bool {
        if self.is_early && !matches!(self.stage, Stage::Training) {
            if let Stage::Learned(expected) = self.stage {
                self.before = expected;
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
    pub(crate) fn confirms(&mut self, share: Share) -> bool {
        let as_before = self
            .before
            .is_some_and(|before| !share.is_worse_than(&before));
        let confirmed = as_before && self.is_collecting();
        if confirmed {
            self.before = None;
            self.stage = Stage::Learned(Some(share));
        }
        confirmed
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
    pub(crate) fn give_up(&mut self, until: usize) {
        self.stage = Stage::Waiting(Some(until.max(FEW)));
        self.window = Window::default();
    }

    /// What training came to, of a kind that has so many objects and a dictionary or none. Answers the
    /// lesson whose dictionary is to be used from now on, where it is a new one.
    pub(crate) fn end(
        &mut self,
        lesson: Option<Lesson>,
        objects: usize,
        has_dictionary: bool,
    ) -> Option<Lesson> {
        self.window = Window::default();
        let lesson = lesson.filter(|lesson| lesson.is_worth(objects));
        self.stage = match (&lesson, has_dictionary) {
            (Some(lesson), _) => Stage::Learned(Some(lesson.share)),
            // The next objects say what is to be expected.
            (None, true) => Stage::Learned(None),
            (None, false) => Stage::Waiting(Some(objects.max(FEW) * LATER)),
        };
        // What arrives may be like nothing of what is stored for good.
        if lesson.is_some() && has_dictionary {
            self.patience = PATIENCE.min(2 * self.patience);
        }
        lesson
    }
}

impl Window {
    /// What packing left of the objects of a window, at its end.
    fn put(&mut self, json: usize, packed: usize) -> Option<Share> {
        self.share.add(json, packed);
        self.objects += 1;
        (self.objects >= WINDOW).then(|| std::mem::take(self).share)
    }
}

impl Share {
    /// An object of so many bytes was packed into so many.
    pub(crate) fn add(&mut self, json: usize, packed: usize) {
        self.json += json;
        self.packed += packed;
    }

    /// By a third at least.
    fn is_worse_than(&self, other: &Self) -> bool {
        // The product of two windows is more than 32 bits hold, and may be more than 64.
        let cross = |packed: usize, json: usize| packed as u128 * json as u128;
        cross(self.packed, other.json) * 3 > cross(other.packed, self.json) * 4
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Objects of a kind that have most in common.
    pub(in crate::pack) fn alike(number: usize) -> Vec<u8> {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = format!("service-{number}-{hash:x}");
        let container = r#""image":"registry.example.com/platform/service:1.2.3","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log""#;
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","labels":{{"app":"{name}"}}}},
            "spec":{{"containers":[{{{container}}}],"restartPolicy":"Always","nodeName":"node-{number}"}}}}"#
        )
        .into_bytes()
    }

    /// Objects that have nothing in common.
    fn apart(number: usize) -> Vec<u8> {
        let mut state = number as u64 + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            33 + u8::try_from((state >> 33) % 90).unwrap()
        };
        (0..600).map(|_| next()).collect()
    }

    /// Objects that have most in common, and nothing with those.
    pub(in crate::pack) fn others(number: usize) -> Vec<u8> {
        let rule = r#"{"apiGroups":["batch.example.com"],"resources":["tasks","timers"],"verbs":["get","watch"]}"#;
        format!(r#"{{"subject":"robot-{number}","rules":[{rule},{rule}],"since":{number}}}"#)
            .into_bytes()
    }

    pub(in crate::pack) fn samples(object: fn(usize) -> Vec<u8>) -> Samples {
        let mut samples = Samples::default();
        (0..ENOUGH).for_each(|number| samples.add(&object(number)));
        samples
    }

    pub(in crate::pack) fn lesson(object: fn(usize) -> Vec<u8>, objects: usize) -> Option<Lesson> {
        let mut samples = Samples::default();
        (0..objects).for_each(|number| samples.add(&object(number)));
        samples.train(&Tools::default(), None)
    }

    /// Puts in so many objects; says whether there was something to do at any of them.
    fn note(learning: &mut Learning, objects: std::ops::Range<usize>, packed: usize) -> bool {
        let mut due = false;
        for number in objects {
            due |= learning.note(&alike(number), packed, number + 1);
        }
        due
    }

    // PACK-5
    #[test]
    fn pack_5_a_dictionary_is_had_where_objects_are_many_and_alike() {
        let mut learning = Learning::new(true);
        assert!(!note(&mut learning, 0..FEW - 1, 300));
        assert!(learning.begin().is_none());
        assert!(note(&mut learning, FEW - 1..FEW + ENOUGH, 300));
        let samples = learning.begin().unwrap();
        assert_eq!(samples.sizes.len(), ENOUGH);
        // Somebody is at it.
        assert!(learning.begin().is_none() && !note(&mut learning, 600..9_000, 300));
        let lesson = samples.train(&Tools::default(), None).unwrap();
        assert!(lesson.saves > 100, "{lesson:?}");
        let few = learning.end(self::lesson(alike, ENOUGH), FEW, false);
        assert!(few.is_none(), "it takes more than it saves");
        assert!(!note(&mut learning, FEW..FEW * LATER - 1, 300));
        assert!(note(&mut learning, FEW * LATER..FEW * LATER + 1, 300));
        assert!(learning.end(Some(lesson), 50_000, false).is_some());
        assert!(self::lesson(apart, ENOUGH).is_none());
    }

    /// Objects of some size, of which hardly anything is their own.
    fn large(number: usize) -> Vec<u8> {
        let lines: Vec<String> = (0..120)
            .map(|line| format!(r#""line-{line}":"the same of each, line {}""#, line * 7))
            .collect();
        format!(r#"{{"name":"n-{number}",{}}}"#, lines.join(",")).into_bytes()
    }

    // PACK-5
    #[test]
    fn pack_5_some_samples_as_they_are_do_where_others_resemble_them_and_else_training_does_more() {
        let tools = Tools::default();
        let share_of_some = |samples: &Samples, bytes: usize| {
            let (known, unknown) = samples.parted();
            let some = known.some(bytes);
            assert!(some.len() <= bytes);
            let dictionary = Arc::new(Dictionary::new(&some).unwrap());
            unknown.packed(&tools, Some(&dictionary)).packed
        };
        let large = samples(large);
        let lesson = large.train(&tools, None).unwrap();
        assert_eq!(lesson.share.packed, share_of_some(&large, LARGEST / 2));
        let small = samples(alike);
        let lesson = small.train(&tools, None).unwrap();
        assert!(lesson.share.packed < share_of_some(&small, LARGEST / 2));
    }

    #[test]
    fn some_samples_are_whole_and_from_all_over() {
        let samples = samples(alike);
        let each = alike(0).len();
        let some = String::from_utf8(samples.some(4 * each)).unwrap();
        let names: Vec<&str> = some
            .split("\"nodeName\":\"node-")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(names, ["0", "100", "200"]);
        assert_eq!(samples.some(1), alike(0)[..1]);
        // One that is larger than all of it takes no more, and one that is later takes nothing.
        let mut uneven = Samples::default();
        for number in 0..40 {
            let many = if number % 20 == 0 { 50 } else { 1 };
            uneven.add(&alike(number).repeat(many));
        }
        let room = 20 * each;
        assert_eq!(uneven.some(room), alike(0).repeat(50)[..room]);
    }

    // PACK-5
    #[test]
    fn pack_5_what_packs_no_longer_as_it_did_is_learned_anew() {
        let mut learning = Learning::new(true);
        let lesson = learning.end(lesson(alike, ENOUGH), 50_000, false).unwrap();
        let usual = lesson.share.packed / ENOUGH.div_ceil(KEPT_BACK);
        assert!(!note(&mut learning, 0..3 * WINDOW, usual));
        assert!(!note(&mut learning, 0..WINDOW, usual * 5 / 4));
        assert!(note(&mut learning, 0..WINDOW, 2 * usual));
        assert!(learning.is_collecting());
        learning.complete(Samples::default());
        assert!(learning.begin().is_some());
        // Nothing better is to be had: that is what is expected from now on.
        assert!(learning.end(None, 50_000, true).is_none());
        assert!(!note(&mut learning, 0..3 * WINDOW, 2 * usual));
        assert!(note(&mut learning, 0..WINDOW, 3 * usual));
    }

    // PACK-5
    #[test]
    fn pack_5_a_dictionary_that_helps_nobody_from_the_first_is_seen_and_not_tried_for_ever() {
        let mut learning = Learning::new(true);
        let plain = alike(1).len();
        let mut trainings = 0;
        let mut has_dictionary = false;
        for _ in 0..1000 {
            trainings += 1;
            learning.end(lesson(alike, ENOUGH), 50_000, has_dictionary);
            has_dictionary = true;
            let windows = (1..=200).find(|_| note(&mut learning, 0..WINDOW, plain));
            assert_eq!(windows, Some(1 << (trainings - 1).min(6)));
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
            let mut learning = Learning::new(true);
            for number in 0..FEW + ENOUGH {
                learning.note(&odd(number), 300, number + 1);
            }
            let early = learning.begin().unwrap();
            let early = early.train(&Tools::default(), None);
            let early = learning.end(early, 20_000, false);
            assert!(!learning.is_collecting());
            assert!(learning.wants());
            let (tools, stored) = (Tools::default(), samples(alike));
            let present = early.map(|lesson| Arc::new(lesson.dictionary));
            let share = present.as_ref().map(|by| stored.packed(&tools, Some(by)));
            assert!(!share.is_some_and(|share| learning.confirms(share)));
            learning.complete(stored);
            let late = learning.begin().unwrap().train(&tools, present.as_ref());
            assert!(learning.end(late, 20_000, present.is_some()).is_some());
            // Once is enough.
            assert!(!learning.wants());
        }
    }

    // PACK-5
    #[test]
    fn pack_5_what_arrived_first_and_was_like_the_rest_is_not_learned_twice() {
        let mut learning = Learning::new(true);
        note(&mut learning, 0..FEW + ENOUGH, 300);
        let tools = Tools::default();
        let early = learning.begin().unwrap().train(&tools, None);
        let early = learning.end(early, 20_000, false).unwrap();
        assert!(learning.wants() && learning.doubts());
        let stored = samples(alike);
        let share = stored.packed(&tools, Some(&Arc::new(early.dictionary)));
        assert!(learning.confirms(share));
        assert!(learning.begin().is_none() && !learning.wants());
        let usual = share.packed / ENOUGH;
        assert!(!note(&mut learning, 0..3 * WINDOW, usual));
    }

    #[test]
    fn shares_of_whatever_size_are_compared() {
        let json = usize::MAX / 2;
        let (all, half) = (
            Share { json, packed: json },
            Share {
                json,
                packed: json / 2,
            },
        );
        assert!(all.is_worse_than(&half) && !half.is_worse_than(&all));
    }

    #[test]
    fn samples_are_of_all_over_from_the_first_few_on() {
        for stored in [1, 7, ENOUGH, 301, 7919, 50_000] {
            let wanted: Vec<usize> = spread(stored).collect();
            let distinct: std::collections::BTreeSet<_> = wanted.iter().collect();
            assert_eq!(distinct.len(), stored.min(ENOUGH));
            assert!(wanted.iter().all(|at| *at < stored));
        }
        let first: Vec<usize> = spread(50_000).take(8).collect();
        let halves = first.iter().filter(|at| **at < 25_000).count();
        assert!((2..=6).contains(&halves), "{first:?}");
    }

    // PACK-4
    #[test]
    fn pack_4_nothing_is_learned_of_secrets() {
        let mut learning = Learning::new(false);
        assert!(!note(&mut learning, 0..4 * ENOUGH, 300));
        assert!(!learning.wants());
        learning.complete(Samples::default());
        assert!(learning.begin().is_none());
    }
}
