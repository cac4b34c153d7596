//! Machine: collects samples of a kind's objects, and trains a dictionary from them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use structured_zstd::dictionary::{FinalizeOptions, finalize_raw_dict};

use crate::codec::{Codec, Dictionary, LEVEL};

pub(crate) const ENOUGH: usize = 300;
/// The number of bytes at which the samples are enough, even if their count is not.
const ENOUGH_BYTES: usize = 4 << 20;
/// The maximal size of a dictionary in bytes. Larger ones hardly pack better.
const LARGEST: usize = 64 << 10;
/// The samples must be this many times larger than the dictionary: a copy of all samples proves nothing.
const SAMPLES_PER_BYTE: usize = 10;
/// Objects count as alike if an excerpt of a few packs the others to less than a sixth. For them, a full training
/// rarely saves more memory, and it takes 0.1 s and 17 MB, of which the allocator keeps half.
const ALIKE: usize = 6;
/// The bytes reserved for the entropy tables of a dictionary, of which usually 130 are used.
const TABLES: usize = 4 << 10;
/// The dictionary ID in packed bytes: one byte long, and not needed, because each body refers to its dictionary.
const DICTIONARY_ID: u32 = 1;
const ID_BYTES: std::ops::Range<usize> = 4..8;
/// One sample in this many tests a dictionary, and does not train it.
pub const KEPT_BACK: usize = 4;
/// The stride between sampled positions, so that a few samples come from all parts of the store.
const SPREAD: usize = 7919;

/// The JSON of sampled objects.
#[derive(Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

type Tried = (Arc<Dictionary>, PackRatio);

/// A trained dictionary and its measured benefit.
#[derive(Debug)]
pub struct TrainedDictionary {
    pub(crate) dictionary: Dictionary,
    /// The number of bytes saved per object.
    pub(super) saves: usize,
    /// The pack ratio on the test samples.
    pub(super) share: PackRatio,
}

/// The total size of some objects before and after packing, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackRatio {
    json: usize,
    pub(super) packed: usize,
}

/// Returns sample positions in a store with this number of objects, spread over the whole store.
pub(crate) fn spread(stored: usize) -> impl Iterator<Item = usize> + Clone {
    let count = stored.min(ENOUGH);
    // The stride is a prime, so no position occurs twice.
    (0..count).map(move |number| number * SPREAD % count * stored / count)
}

impl Samples {
    /// Adds the JSON of an object, unless the samples are enough.
    pub fn add(&mut self, json: &[u8]) {
        if json.is_empty() || self.is_enough() {
            return;
        }
        self.bytes.extend_from_slice(json);
        self.sizes.push(json.len());
    }

    /// Returns whether the samples are enough for a training.
    pub fn is_enough(&self) -> bool {
        self.sizes.len() >= ENOUGH || self.bytes.len() >= ENOUGH_BYTES
    }

    pub(crate) fn is_half(&self) -> bool {
        self.sizes.len() >= ENOUGH / 2 || self.bytes.len() >= ENOUGH_BYTES / 2
    }

    /// Trains a dictionary. Returns it only if it packs at least a fifth better than no dictionary, and no worse than
    /// the current one. Takes 0.1 s or more.
    pub fn train(
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
                &mut trained, &training_part.bytes, &training_part.sizes,
            );
            if let (Ok(_), Some(name)) = (done, trained.get_mut(ID_BYTES)) {
                name.copy_from_slice(&DICTIONARY_ID.to_le_bytes());
                best = smaller(Some(best), tried(&trained))?;
            }
        }
        let (dictionary, share) = best;
        let without = test_part.packed(codec, None).packed;
        let with = share.packed;
        if present.is_some_and(|present| test_part.packed(codec, Some(present)).packed < with) {
            return None;
        }
        // This is the only reference: the test packs that shared the dictionary are dropped.
        let dictionary = Arc::into_inner(dictionary)?;
        let saves = without.saturating_sub(with) / test_part.sizes.len().max(1);
        (with * 5 <= without * 4).then_some(TrainedDictionary {
            dictionary,
            saves,
            share,
        })
    }

    /// Returns the excerpt as a dictionary with entropy tables, so that packed objects need no tables.
    fn with_entropy_tables(&self, excerpt: &[u8]) -> Option<Vec<u8>> {
        let options = FinalizeOptions {
            dict_id: Some(DICTIONARY_ID),
            level: LEVEL,
        };
        let room = excerpt.len() + TABLES;
        let made = || finalize_raw_dict(excerpt, &self.bytes, &self.sizes, room, options);
        // The library may panic on unusual JSON. Without tables, the excerpt itself is the dictionary.
        catch_unwind(AssertUnwindSafe(made)).ok()?.ok()
    }

    pub(super) fn packed(&self, codec: &Codec, by: Option<&Arc<Dictionary>>) -> PackRatio {
        let mut share = PackRatio::default();
        for json in self.each() {
            share.add(json.len(), codec.pack(json, by).size());
        }
        share
    }

    /// Returns whole samples from all parts, as many as fit into `bytes`, and at least the start of the first sample.
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

/// Returns the better dictionary by the test samples.
fn smaller(one: Option<Tried>, other: Option<Tried>) -> Option<Tried> {
    let each = one.into_iter().chain(other);
    each.min_by_key(|(_, share)| share.packed)
}

impl TrainedDictionary {
    /// Returns whether the dictionary saves more memory for this number of objects than it takes.
    pub(super) fn is_worth_for(&self, objects: usize) -> bool {
        self.saves.saturating_mul(objects) > 2 * self.dictionary.size()
    }

    /// Returns the number of objects at which the dictionary saves half of its own size.
    pub(crate) fn min_bodies(&self) -> usize {
        self.dictionary.size() / 2 / self.saves.max(1)
    }
}

impl PackRatio {
    /// Adds an object by its size before and after packing.
    pub fn add(&mut self, json: usize, packed: usize) {
        self.json += json;
        self.packed += packed;
    }

    /// Returns whether this pack ratio is at least a third worse than `other`.
    pub(super) fn is_worse_than(&self, other: &Self) -> bool {
        // The products may exceed 64 bits.
        let cross = |packed: usize, json: usize| packed as u128 * json as u128;
        cross(self.packed, other.json) * 3 > cross(other.packed, self.json) * 4
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns an object that has most of its content in common with other numbers.
    pub(crate) fn alike(number: usize) -> Vec<u8> {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = format!("service-{number}-{hash:x}");
        let container = r#""image":"registry.example.com/platform/service:1.2.3","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log""#;
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","labels":{{"app":"{name}"}}}},
            "spec":{{"containers":[{{{container}}}],"restartPolicy":"Always","nodeName":"node-{number}"}}}}"#
        )
        .into_bytes()
    }

    /// Returns an object that has nothing in common with other numbers.
    pub(crate) fn apart(number: usize) -> Vec<u8> {
        let mut state = number as u64 + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            33 + u8::try_from((state >> 33) % 90).unwrap()
        };
        (0..600).map(|_| next()).collect()
    }

    /// Returns an object that has most in common with other numbers, and nothing with `alike`.
    pub(crate) fn others(number: usize) -> Vec<u8> {
        let rule = r#"{"apiGroups":["batch.example.com"],"resources":["tasks","timers"],"verbs":["get","watch"]}"#;
        format!(r#"{{"subject":"robot-{number}","rules":[{rule},{rule}],"since":{number}}}"#)
            .into_bytes()
    }

    pub(crate) fn samples(object: fn(usize) -> Vec<u8>) -> Samples {
        let mut samples = Samples::default();
        (0..ENOUGH).for_each(|number| samples.add(&object(number)));
        samples
    }

    pub(crate) fn trained(
        object: fn(usize) -> Vec<u8>,
        objects: usize,
    ) -> Option<TrainedDictionary> {
        let mut samples = Samples::default();
        (0..objects).for_each(|number| samples.add(&object(number)));
        samples.train(&Codec::default(), None)
    }

    /// Returns a large object that is almost equal for all numbers.
    fn large(number: usize) -> Vec<u8> {
        let lines: Vec<String> = (0..120)
            .map(|line| format!(r#""line-{line}":"the same of each, line {}""#, line * 7))
            .collect();
        format!(r#"{{"name":"n-{number}",{}}}"#, lines.join(",")).into_bytes()
    }

    /// Returns an object of one of 17 sorts that have nothing in common.
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

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_an_excerpt_serves_similar_objects_and_training_serves_mixed_ones() {
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

    // PACK-5: a kind has a dictionary only if the dictionary saves memory.
    #[test]
    fn pack_5_degenerate_samples_never_break_a_dictionary() {
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
        // The samples may be any bytes that a server sends.
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
    fn an_excerpt_has_whole_samples_from_the_whole_list() {
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
        // A sample larger than the excerpt is cut, and later samples are left out.
        let mut uneven = Samples::default();
        for number in 0..40 {
            let many = if number % 20 == 0 { 50 } else { 1 };
            uneven.add(&alike(number).repeat(many));
        }
        let room = 20 * each;
        assert_eq!(uneven.excerpt(room), alike(0).repeat(50)[..room]);
    }

    #[test]
    fn pack_ratios_of_any_size_are_compared() {
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
    fn the_first_few_sample_positions_are_spread_over_the_store() {
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
