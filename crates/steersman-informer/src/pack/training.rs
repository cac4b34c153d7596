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
/// Of so many samples one is kept back, to see what the dictionary does for what it does not know.
const KEPT_BACK: usize = 4;
/// After so many objects it is seen how well they were packed.
const WINDOW: usize = 1024;
/// Where training was of no use, it is tried again once there are so many times the objects.
const LATER: usize = 4;

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
}

/// When to train.
#[derive(Debug)]
pub(crate) struct Learning {
    stage: Stage,
    window: Window,
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
    /// There is a dictionary; how well it packed at first, as soon as that is known.
    Learned(Option<Share>),
}

/// What packing left of so many bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    json: usize,
    packed: usize,
}

#[derive(Debug, Default)]
struct Window {
    share: Share,
    objects: usize,
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

    /// Learns a dictionary, where it would pack by a fifth better than none. It takes long: some tenths
    /// of a second.
    pub(crate) fn train(&self, tools: &Tools) -> Option<Lesson> {
        let (known, unknown) = self.parted();
        let size = LARGEST.min(known.bytes.len() / SAMPLES_PER_BYTE);
        let mut trained = Vec::with_capacity(size);
        zstd_safe::train_from_buffer(&mut trained, &known.bytes, &known.sizes).ok()?;
        let dictionary = Arc::new(Dictionary::new(&trained)?);
        let held = |by: Option<&Arc<Dictionary>>| {
            let packed = unknown.each().map(|json| tools.pack(json, by).held());
            packed.sum::<usize>()
        };
        let (without, with) = (held(None), held(Some(&dictionary)));
        // What was packed with it here is gone again.
        let dictionary = Arc::into_inner(dictionary)?;
        let saves = without.saturating_sub(with) / unknown.sizes.len().max(1);
        (with * 5 <= without * 4).then_some(Lesson { dictionary, saves })
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
}

// ===== impl Learning =====

impl Learning {
    /// `trains` says whether anything may be learned of the objects at all: nothing of a Secret is put
    /// where another's bytes are (PACK-4).
    pub(crate) fn new(trains: bool) -> Self {
        Self {
            stage: Stage::Waiting(trains.then_some(FEW)),
            window: Window::default(),
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
                    return true;
                }
                false
            }
            Stage::Learned(first) => {
                let Some(share) = self.window.put(json.len(), packed) else {
                    return false;
                };
                let worse = share.is_worse_than(first.get_or_insert(share));
                if worse {
                    self.stage = Stage::Collecting(Samples::default());
                }
                worse
            }
            Stage::Waiting(_) | Stage::Due(_) | Stage::Training => false,
        }
    }

    /// Whether somebody waits for more samples than came by themselves.
    pub(crate) fn is_collecting(&self) -> bool {
        matches!(self.stage, Stage::Collecting(_))
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
        if self.is_collecting() {
            self.stage = Stage::Due(samples);
        }
    }

    /// What training came to, of a kind that has so many objects and a dictionary or none. Answers the
    /// dictionary to use from now on, where it is a new one.
    pub(crate) fn end(
        &mut self,
        lesson: Option<Lesson>,
        objects: usize,
        has_dictionary: bool,
    ) -> Option<Dictionary> {
        self.window = Window::default();
        let lesson = lesson.filter(|lesson| lesson.is_worth(objects));
        self.stage = match (&lesson, has_dictionary) {
            // The next objects say what is to be expected of it.
            (Some(_), _) | (None, true) => Stage::Learned(None),
            (None, false) => Stage::Waiting(Some(objects.max(FEW) * LATER)),
        };
        lesson.map(|lesson| lesson.dictionary)
    }
}

impl Window {
    /// What packing left of the objects of a window, at its end.
    fn put(&mut self, json: usize, packed: usize) -> Option<Share> {
        self.share.json += json;
        self.share.packed += packed;
        self.objects += 1;
        (self.objects >= WINDOW).then(|| std::mem::take(self).share)
    }
}

impl Share {
    /// By a third at least.
    fn is_worse_than(&self, other: &Self) -> bool {
        self.packed * other.json * 3 > other.packed * self.json * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of a kind that have most in common.
    fn alike(number: usize) -> Vec<u8> {
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

    fn lesson(object: fn(usize) -> Vec<u8>, objects: usize) -> Option<Lesson> {
        let mut samples = Samples::default();
        (0..objects).for_each(|number| samples.add(&object(number)));
        samples.train(&Tools::default())
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
        let lesson = samples.train(&Tools::default()).unwrap();
        assert!(lesson.saves > 100, "{lesson:?}");
        let few = learning.end(self::lesson(alike, ENOUGH), FEW, false);
        assert!(few.is_none(), "it takes more than it saves");
        assert!(!note(&mut learning, FEW..FEW * LATER - 1, 300));
        assert!(note(&mut learning, FEW * LATER..FEW * LATER + 1, 300));
        assert!(learning.end(Some(lesson), 50_000, false).is_some());
        assert!(self::lesson(apart, ENOUGH).is_none());
    }

    // PACK-5
    #[test]
    fn pack_5_what_packs_no_longer_as_it_did_is_learned_anew() {
        let mut learning = Learning::new(true);
        learning.end(lesson(alike, ENOUGH), 50_000, false).unwrap();
        assert!(!note(&mut learning, 0..3 * WINDOW, 60));
        assert!(!note(&mut learning, 0..WINDOW, 70));
        assert!(note(&mut learning, 0..WINDOW, 120));
        assert!(learning.is_collecting());
        learning.complete(Samples::default());
        assert!(learning.begin().is_some());
        // Nothing better is to be had: that is what is expected from now on.
        assert!(learning.end(None, 50_000, true).is_none());
        assert!(!note(&mut learning, 0..3 * WINDOW, 120));
        assert!(note(&mut learning, 0..WINDOW, 200));
    }

    // PACK-4
    #[test]
    fn pack_4_nothing_is_learned_of_secrets() {
        let mut learning = Learning::new(false);
        assert!(!note(&mut learning, 0..4 * ENOUGH, 300));
        learning.complete(Samples::default());
        assert!(learning.begin().is_none());
    }
}
