//! Machine: samples of a kind, and the dictionary that is learned of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use structured_zstd::dictionary::{FinalizeOptions, finalize_raw_dict};

use crate::pack::codec::{Codec, Dictionary, LEVEL};

/// So many objects are looked at to learn.
pub(crate) const ENOUGH: usize = 300;
/// Or so many bytes of them.
const ENOUGH_BYTES: usize = 4 << 20;
/// The largest dictionary. Past this it saves little more.
const LARGEST: usize = 64 << 10;
/// A dictionary is smaller than its samples by this factor at least: one that holds them all has learned
/// nothing.
const SAMPLES_PER_BYTE: usize = 10;
/// Objects are alike where a few of them leave less than one in so many bytes of others. Training saves nothing
/// more of these as a rule, and takes a tenth of a second and 17 MB for it, of which an allocator keeps half.
const ALIKE: usize = 6;
/// Room for what stands before the samples in a dictionary, how their bytes are coded: 130 bytes as a rule.
const TABLES: usize = 4 << 10;
/// What each packed object says of its dictionary, where that has tables: so small a number takes one byte.
/// Which one it is its holder knows.
const NAME: u32 = 1;
/// Where a dictionary has its name.
const NAMED: std::ops::Range<usize> = 4..8;
/// Of so many samples one is kept back, to see what the dictionary does for what it does not know.
pub(crate) const KEPT_BACK: usize = 4;
/// The samples of a store are looked at in an order that is all over it from the first few on.
const SPREAD: usize = 7919;

/// Objects to learn from.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

/// A dictionary, and what it left of objects that it does not know.
type Tried = (Arc<Dictionary>, PackRatio);

/// What learning came to.
#[derive(Debug)]
pub(crate) struct TrainedDictionary {
    pub(crate) dictionary: Dictionary,
    /// What it saves of each object, in bytes.
    pub(super) saves: usize,
    /// What it left of objects that it does not know.
    pub(super) share: PackRatio,
}

/// What packing left of so many bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PackRatio {
    json: usize,
    pub(super) packed: usize,
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

    /// Whether they are half of what is enough.
    pub(crate) fn is_half(&self) -> bool {
        self.sizes.len() >= ENOUGH / 2 || self.bytes.len() >= ENOUGH_BYTES / 2
    }

    /// Learns a dictionary, where it would pack by a fifth better than none, and as well as the present one.
    /// It may take long: a tenth of a second and more.
    pub(crate) fn train(
        &self,
        codec: &Codec,
        present: Option<&Arc<Dictionary>>,
    ) -> Option<TrainedDictionary> {
        let (training_part, test_part) = self.split_for_test();
        let size = LARGEST.min(training_part.bytes.len() / SAMPLES_PER_BYTE);
        let tried = |bytes: &[u8]| {
            let dictionary = Arc::new(Dictionary::new(bytes)?);
            let share = test_part.packed(codec, Some(&dictionary));
            Some((dictionary, share))
        };
        let excerpt = training_part.excerpt(size / 2);
        let with_entropy_tables = training_part
            .with_entropy_tables(&excerpt)
            .and_then(|with_entropy_tables| tried(&with_entropy_tables));
        let mut best = smaller(with_entropy_tables, tried(&excerpt))?;
        if best.1.packed * ALIKE > best.1.json {
            let mut trained = Vec::with_capacity(size);
            let done = zstd_safe::train_from_buffer(
                &mut trained,
                &training_part.bytes,
                &training_part.sizes,
            );
            if let (Ok(_), Some(name)) = (done, trained.get_mut(NAMED)) {
                name.copy_from_slice(&NAME.to_le_bytes());
                best = smaller(Some(best), tried(&trained))?;
            }
        }
        let (dictionary, share) = best;
        let without = test_part.packed(codec, None).packed;
        let with = share.packed;
        if present.is_some_and(|present| test_part.packed(codec, Some(present)).packed < with) {
            return None;
        }
        // What was packed with it here is gone again.
        let dictionary = Arc::into_inner(dictionary)?;
        let saves = without.saturating_sub(with) / test_part.sizes.len().max(1);
        (with * 5 <= without * 4).then_some(TrainedDictionary {
            dictionary,
            saves,
            share,
        })
    }

    /// A dictionary of this and of how samples are coded by it, so that none has to tell that by itself.
    fn with_entropy_tables(&self, excerpt: &[u8]) -> Option<Vec<u8>> {
        let options = FinalizeOptions {
            dict_id: Some(NAME),
            level: LEVEL,
        };
        let room = excerpt.len() + TABLES;
        let made = || finalize_raw_dict(excerpt, &self.bytes, &self.sizes, room, options);
        // It reads what servers send, and there is a way without it.
        catch_unwind(AssertUnwindSafe(made)).ok()?.ok()
    }

    pub(super) fn packed(&self, codec: &Codec, by: Option<&Arc<Dictionary>>) -> PackRatio {
        let mut share = PackRatio::default();
        for json in self.each() {
            share.add(json.len(), codec.pack(json, by).size());
        }
        share
    }

    /// Some of them from all over, as they are: what fits of these, and the beginning of the first at least.
    fn excerpt(&self, bytes: usize) -> Vec<u8> {
        let many = self.sizes.len() * bytes / self.bytes.len().max(1);
        let step = self.sizes.len().div_ceil(many.max(1)).max(1);
        let mut excerpt = Vec::with_capacity(bytes);
        for json in self.each().step_by(step) {
            if excerpt.is_empty() {
                excerpt.extend_from_slice(&json[..json.len().min(bytes)]);
            } else if excerpt.len() + json.len() <= bytes {
                excerpt.extend_from_slice(json);
            }
        }
        excerpt
    }

    /// Those to learn from, and those to try it on.
    fn split_for_test(&self) -> (Self, Self) {
        let (mut training_part, mut test_part) = (Self::default(), Self::default());
        for (number, json) in self.each().enumerate() {
            let part = if number % KEPT_BACK == 0 {
                &mut test_part
            } else {
                &mut training_part
            };
            part.add(json);
        }
        (training_part, test_part)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.sizes.iter().map(move |size| {
            let (one, others) = rest.split_at(*size);
            rest = others;
            one
        })
    }
}

/// What leaves less of the two.
fn smaller(one: Option<Tried>, other: Option<Tried>) -> Option<Tried> {
    let each = one.into_iter().chain(other);
    each.min_by_key(|(_, share)| share.packed)
}

impl TrainedDictionary {
    /// Whether it saves more of so many objects than it takes.
    pub(super) fn is_worth_for(&self, objects: usize) -> bool {
        self.saves.saturating_mul(objects) > 2 * self.dictionary.size()
    }

    /// Of fewer objects than these it saves only half of what it takes.
    pub(crate) fn min_bodies(&self) -> usize {
        self.dictionary.size() / 2 / self.saves.max(1)
    }
}

// ===== impl Share =====

impl PackRatio {
    /// An object of so many bytes was packed into so many.
    pub(crate) fn add(&mut self, json: usize, packed: usize) {
        self.json += json;
        self.packed += packed;
    }

    /// By a third at least.
    pub(super) fn is_worse_than(&self, other: &Self) -> bool {
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
    pub(in crate::pack) fn apart(number: usize) -> Vec<u8> {
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

    pub(in crate::pack) fn trained(
        object: fn(usize) -> Vec<u8>,
        objects: usize,
    ) -> Option<TrainedDictionary> {
        let mut samples = Samples::default();
        (0..objects).for_each(|number| samples.add(&object(number)));
        samples.train(&Codec::default(), None)
    }

    /// Objects of some size, of which hardly anything is their own.
    fn large(number: usize) -> Vec<u8> {
        let lines: Vec<String> = (0..120)
            .map(|line| format!(r#""line-{line}":"the same of each, line {}""#, line * 7))
            .collect();
        format!(r#"{{"name":"n-{number}",{}}}"#, lines.join(",")).into_bytes()
    }

    /// Objects of a number of sorts, each of which has nothing in common with the others.
    fn mixed(number: usize) -> Vec<u8> {
        let sort = number % 17;
        let parts = (0..4).flat_map(|part| apart(sort * 4 + part));
        number
            .to_string()
            .into_bytes()
            .into_iter()
            .chain(parts)
            .collect()
    }

    // PACK-5
    #[test]
    fn pack_5_some_samples_do_where_others_resemble_them_and_else_training_does_more() {
        let codec = Codec::default();
        let share_of_some = |samples: &Samples| {
            let (training_part, test_part) = samples.split_for_test();
            let bytes = LARGEST.min(training_part.bytes.len() / SAMPLES_PER_BYTE) / 2;
            let excerpt = training_part.excerpt(bytes);
            assert!(excerpt.len() <= bytes);
            let left = |dictionary: &[u8]| {
                let dictionary = Arc::new(Dictionary::new(dictionary).unwrap());
                test_part.packed(&codec, Some(&dictionary)).packed
            };
            (
                left(&training_part.with_entropy_tables(&excerpt).unwrap()),
                left(&excerpt),
            )
        };
        let large = samples(large);
        let trained = large.train(&codec, None).unwrap();
        let (with_entropy_tables, as_they_are) = share_of_some(&large);
        assert_eq!(trained.share.packed, with_entropy_tables);
        assert!(
            with_entropy_tables < as_they_are,
            "it says how their bytes are with_entropy_tables"
        );
        let mixed = samples(mixed);
        let trained = mixed.train(&codec, None).unwrap();
        assert!(trained.share.packed < share_of_some(&mixed).0);
    }

    // PACK-5
    #[test]
    fn pack_5_samples_of_which_nothing_is_to_be_said_are_a_dictionary_as_they_are() {
        let nothing = Samples::default();
        for excerpt in [&b""[..], b"{}", &alike(1)] {
            let with_entropy_tables = nothing.with_entropy_tables(excerpt);
            assert!(
                with_entropy_tables
                    .is_none_or(
                        |with_entropy_tables| Dictionary::new(&with_entropy_tables).is_some()
                    )
            );
        }
        // Whatever a server sends.
        for object in [
            |_| vec![0; 9],
            |number| vec![number as u8; 5],
            |_| vec![7; 300_000],
        ] {
            let samples = samples(object);
            if let Some(trained) = samples.train(&Codec::default(), None) {
                let (codec, by) = (Codec::default(), Arc::new(trained.dictionary));
                let packed = codec.pack(&object(3), Some(&by));
                let again = codec.unpack(&packed, <[u8]>::to_vec).unwrap();
                assert_eq!(again, object(3));
            }
        }
    }

    #[test]
    fn some_samples_are_whole_and_from_all_over() {
        let samples = samples(alike);
        let each = alike(0).len();
        let excerpt = String::from_utf8(samples.excerpt(4 * each)).unwrap();
        let names: Vec<&str> = excerpt
            .split("\"nodeName\":\"node-")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(names, ["0", "100", "200"]);
        assert_eq!(samples.excerpt(1), alike(0)[..1]);
        // One that is larger than all of it takes no more, and one that is later takes nothing.
        let mut uneven = Samples::default();
        for number in 0..40 {
            let many = if number % 20 == 0 { 50 } else { 1 };
            uneven.add(&alike(number).repeat(many));
        }
        let room = 20 * each;
        assert_eq!(uneven.excerpt(room), alike(0).repeat(50)[..room]);
    }

    #[test]
    fn shares_of_whatever_size_are_compared() {
        let json = usize::MAX / 2;
        let (all, half) = (
            PackRatio { json, packed: json },
            PackRatio {
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
}
