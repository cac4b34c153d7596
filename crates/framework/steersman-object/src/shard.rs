//! Words: the shards of a kind's objects: 256 slots of a hash, and sets of slots.

use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use crate::key::ObjectKey;

/// One of the 256 parts of all objects, by a hash of each object: the top eight bits of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardSlot(u8);

/// A set of [`ShardSlot`]s. Its text lists ranges, such as `0-63,128`; the text of no slot is empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SlotSet([u64; 4]);

/// What is hashed of an object, and how. All of it follows from the object's key, because a read, a request and a delete
/// have only the key. The kind is not hashed, so that objects with equal keys of different kinds are in one slot.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum ShardBy {
    /// The namespace, hashed so that similar names spread evenly. Objects of a namespace are in one slot. A
    /// cluster-scoped object counts by its name, so that a Namespace is in the slot of its objects.
    #[default]
    Namespace,
    /// The namespace, hashed as an API server with `shardSelector` hashes it (KEP-5866), so that the server sends only
    /// the objects of a shard. Names that differ only in their last two characters are mostly in one slot.
    NamespaceOnServer,
    /// The namespace and the name: objects of a namespace spread over all slots.
    Name,
    /// The text that a function makes of the key, hashed so that similar texts spread evenly. All replicas must have the
    /// same function.
    Key(fn(&ObjectKey) -> String),
}

/// A text that is no set of slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no set of slots: ranges of 0 to 255 such as 0-63,128 are expected")]
pub struct SlotSetError {
    text: String,
}

impl ShardSlot {
    /// The number of slots.
    pub const COUNT: usize = 256;

    /// Returns the slot with a number.
    pub fn new(number: u8) -> Self {
        Self(number)
    }

    /// Returns the number of the slot.
    pub fn number(self) -> u8 {
        self.0
    }

    fn of_hash(hash: u64) -> Self {
        let [top, ..] = hash.to_be_bytes();
        Self(top)
    }
}

impl fmt::Display for ShardSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Functions are compared by their addresses, so that equal functions may count as different ones, and different ones
/// with equal code as equal.
impl PartialEq for ShardBy {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(one), Self::Key(other)) => std::ptr::fn_addr_eq(*one, *other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Eq for ShardBy {}

impl ShardBy {
    /// Returns a text that is equal for replicas that divide all objects in the same way, as far as 240 made-up keys show
    /// it: how they divide, and a hash of the slots of these keys. It also differs where a version of the program computes
    /// other slots. A function that panics for one of these keys has no slot for it.
    pub fn division(self) -> String {
        let how = match self {
            Self::Namespace => "namespace",
            Self::NamespaceOnServer => "namespace-on-server",
            Self::Name => "name",
            Self::Key(_) => "function",
        };
        let words = ["default", "shop", "team-a", "prod.eu", "x9"];
        let mut hash = FNV_START;
        for number in 0..8 {
            for namespace in words {
                let global = ObjectKey::cluster_scoped(format!("{namespace}-{number}"));
                hash = fnv1a(hash, &self.shown_slot(&global));
                for name in words {
                    let namespaced = ObjectKey::namespaced(
                        format!("{namespace}-{number}"),
                        format!("{name}-{}", number % 3),
                    );
                    hash = fnv1a(hash, &self.shown_slot(&namespaced));
                }
            }
        }
        format!("{how}-{:08x}", hash >> 32)
    }

    /// Returns the slot of a made-up key as text. A function of the program may expect other keys, and panic.
    fn shown_slot(self, key: &ObjectKey) -> String {
        match catch_unwind(AssertUnwindSafe(|| self.slot_of(key))) {
            Ok(slot) => format!("{slot} "),
            Err(_) => "panic ".to_owned(),
        }
    }

    /// Returns the slot of the object with this key.
    pub fn slot_of(self, key: &ObjectKey) -> ShardSlot {
        let namespace = || fnv1a(FNV_START, key.namespace().unwrap_or(key.name()));
        ShardSlot::of_hash(match self {
            Self::NamespaceOnServer => namespace(),
            Self::Namespace => spread(namespace()),
            Self::Name => {
                let prefix = key.namespace().map_or(FNV_START, |namespace| {
                    fnv1a(fnv1a(FNV_START, namespace), "/")
                });
                spread(fnv1a(prefix, key.name()))
            }
            Self::Key(text) => spread(fnv1a(FNV_START, &text(key))),
        })
    }

    /// Returns the `shardSelector` with which a server sends the objects in `slots`; `None` if no selector does that: by
    /// this hash, for all slots or none, or for cluster-scoped objects. It may select [more](Self::selected).
    pub fn selector(self, slots: &SlotSet, is_namespaced: bool) -> Option<String> {
        let selected = self.selected(slots, is_namespaced)?;
        let ranges = selected.ranges().into_iter().map(|range| {
            let start = u64::from(range.start().0) << 56;
            let end = (u128::from(range.end().0) + 1) << 56;
            format!("shardRange(object.metadata.namespace, '{start:#018x}', '{end:#018x}')")
        });
        Some(ranges.collect::<Vec<_>>().join(" || "))
    }

    /// Returns the slots that [`selector`](Self::selector) selects: `slots`, and some between them, so that the selector has
    /// at most 16 ranges, and a URL can hold it.
    pub fn selected(self, slots: &SlotSet, is_namespaced: bool) -> Option<SlotSet> {
        let is_known_to_server = self == Self::NamespaceOnServer && is_namespaced;
        if !is_known_to_server || slots.is_empty() || *slots == SlotSet::ALL {
            return None;
        }
        let ranges = few(slots.ranges()).into_iter();
        Some(
            ranges
                .flat_map(|range| (range.start().0..=range.end().0).map(ShardSlot))
                .collect(),
        )
    }
}

impl SlotSet {
    /// No slot.
    pub const EMPTY: Self = Self([0; 4]);
    /// All slots.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Returns whether the slot is in the set.
    pub fn contains(&self, slot: ShardSlot) -> bool {
        let (word, bit) = place(slot);
        self.0[word] & bit != 0
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: ShardSlot) {
        let (word, bit) = place(slot);
        self.0[word] |= bit;
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: ShardSlot) {
        let (word, bit) = place(slot);
        self.0[word] &= !bit;
    }

    /// Returns the slots that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combined(other, |one, other| one | other)
    }

    /// Returns the slots that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combined(other, |one, other| one & other)
    }

    /// Returns the slots of this set that are not in the other one.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combined(other, |one, other| one & !other)
    }

    fn combined(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.0;
        for (word, other) in words.iter_mut().zip(other.0) {
            *word = of(*word, other);
        }
        Self(words)
    }

    /// Returns whether every slot of the other set is in this one.
    pub fn is_superset(&self, other: &Self) -> bool {
        other.difference(self).is_empty()
    }

    /// Returns the number of slots in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set has no slot.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Returns the slots of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ShardSlot> + '_ {
        (0..=u8::MAX)
            .map(ShardSlot)
            .filter(|slot| self.contains(*slot))
    }

    /// Returns the slots as ranges, in ascending order.
    pub fn ranges(&self) -> Vec<RangeInclusive<ShardSlot>> {
        let mut ranges: Vec<RangeInclusive<ShardSlot>> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(last) if last.end().0.checked_add(1) == Some(slot.0) => {
                    *last = *last.start()..=slot;
                }
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }
}

impl FromIterator<ShardSlot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = ShardSlot>>(slots: I) -> Self {
        let mut set = Self::EMPTY;
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.ranges().into_iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            match range.start() == range.end() {
                true => write!(f, "{}", range.start())?,
                false => write!(f, "{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotSet({self})")
    }
}

impl FromStr for SlotSet {
    type Err = SlotSetError;

    fn from_str(text: &str) -> Result<Self, SlotSetError> {
        let refused = || SlotSetError {
            text: text.to_owned(),
        };
        let number = |text: &str| text.parse::<u8>().map_err(|_| refused());
        let mut set = Self::EMPTY;
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (start, end) = range.split_once('-').unwrap_or((range, range));
            let (start, end) = (number(start)?, number(end)?);
            if end < start {
                return Err(refused());
            }
            for slot in start..=end {
                set.insert(ShardSlot(slot));
            }
        }
        Ok(set)
    }
}

/// The largest number of ranges in a selector.
const MOST_RANGES: usize = 16;

/// Joins the ranges with the smallest gaps between them until few are left.
fn few(mut ranges: Vec<RangeInclusive<ShardSlot>>) -> Vec<RangeInclusive<ShardSlot>> {
    while ranges.len() > MOST_RANGES {
        let gap = |at: &usize| ranges[at + 1].start().0 - ranges[*at].end().0;
        let Some(at) = (0..ranges.len() - 1).min_by_key(gap) else {
            break;
        };
        let next = ranges.remove(at + 1);
        ranges[at] = *ranges[at].start()..=*next.end();
    }
    ranges
}

fn place(slot: ShardSlot) -> (usize, u64) {
    (usize::from(slot.0 >> 6), 1 << (slot.0 & 63))
}

/// The FNV-1a hash of no text.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues the 64-bit FNV-1a hash (Fowler, Noll, Vo), which KEP-5866 names, of a text with a further text.
fn fnv1a(hash: u64, text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(hash, mix)
}

/// Spreads a hash, so that each of its bits changes the top bits: the finalizer of MurmurHash3 (Appleby). FNV-1a alone
/// changes only bits 40 to 48 if the last character of a text changes.
fn spread(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// SHARD-11: replicas of two versions of a program compare these texts, so that a change of one stops all old
    /// replicas before a new one works.
    #[test]
    fn divisions_differ_where_slots_differ() {
        let first: fn(&ObjectKey) -> String = |key| key.name().chars().take(1).collect();
        let last: fn(&ObjectKey) -> String = |key| key.name().chars().rev().take(1).collect();
        let all = [
            ShardBy::Namespace,
            ShardBy::NamespaceOnServer,
            ShardBy::Name,
            ShardBy::Key(first),
            ShardBy::Key(last),
            // It expects a namespace; made-up keys have none.
            ShardBy::Key(|key| key.namespace().unwrap().to_owned()),
        ];
        let divisions: BTreeSet<String> = all.into_iter().map(ShardBy::division).collect();
        assert_eq!(divisions.len(), all.len(), "{divisions:?}");
        for known in [
            "namespace-630fb9f0", "namespace-on-server-586211c9", "name-a77d1372",
        ] {
            assert!(divisions.contains(known), "{divisions:?}");
        }
    }

    fn in_namespace(namespace: &str) -> ObjectKey {
        ObjectKey::namespaced(namespace, "a")
    }

    #[test]
    fn a_namespace_is_in_the_slot_of_its_objects() {
        for by in [ShardBy::Namespace, ShardBy::NamespaceOnServer] {
            let namespace = by.slot_of(&ObjectKey::cluster_scoped("shop"));
            assert_eq!(namespace, by.slot_of(&in_namespace("shop")));
            assert_eq!(namespace, by.slot_of(&ObjectKey::namespaced("shop", "b")));
        }
    }

    #[test]
    fn numbered_namespaces_spread_over_the_slots() {
        let slots = |by: ShardBy| -> usize {
            let names = (0..1_000).map(|number| in_namespace(&format!("tenant-{number:04}")));
            names.map(|key| by.slot_of(&key)).collect::<SlotSet>().len()
        };
        assert!(slots(ShardBy::Namespace) > 240);
        // This is why the server's hash is not the default.
        assert!(slots(ShardBy::NamespaceOnServer) < 40);
    }

    // The vectors of the reference implementation of FNV (Noll).
    #[test]
    fn the_hash_is_that_of_the_server() {
        let hash = |text| fnv1a(FNV_START, text);
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a(hash("foo"), "bar"), hash("foobar"));
    }

    #[test]
    fn names_spread_over_the_slots_and_a_function_joins_them() {
        let site = |number: i32| ObjectKey::namespaced("shop", format!("site-{number:04}"));
        let slots = |by: ShardBy| -> usize {
            let slots: SlotSet = (0..1_000).map(|number| by.slot_of(&site(number))).collect();
            slots.len()
        };
        assert!(slots(ShardBy::Name) > 240);
        // The prefix of the name, as a tenant.
        let tenant = |key: &ObjectKey| key.name().chars().take(8).collect::<String>();
        assert!((80..=100).contains(&slots(ShardBy::Key(tenant))));
    }

    #[test]
    fn a_name_counts_with_its_namespace() {
        let whole = ShardBy::Key(|key| key.to_string());
        for key in [in_namespace("shop"), ObjectKey::cluster_scoped("shop")] {
            assert_eq!(ShardBy::Name.slot_of(&key), whole.slot_of(&key));
        }
    }

    #[test]
    fn a_selector_names_each_range_of_slots() {
        let by = ShardBy::NamespaceOnServer;
        let slots: SlotSet = "0-1,255".parse().unwrap();
        assert_eq!(
            by.selector(&slots, true).unwrap(),
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x0200000000000000') || \
             shardRange(object.metadata.namespace, '0xff00000000000000', '0x10000000000000000')"
        );
        for (by, slots, is_namespaced) in [
            (by, SlotSet::ALL, true),
            (by, SlotSet::EMPTY, true),
            (by, slots, false),
            (ShardBy::Namespace, slots, true),
            (ShardBy::Name, slots, true),
        ] {
            assert_eq!(by.selector(&slots, is_namespaced), None);
        }
    }

    #[test]
    fn a_selector_of_many_ranges_selects_more() {
        let even = (0..=127).map(|half| ShardSlot::new(half * 2));
        let slots: SlotSet = even.collect();
        let by = ShardBy::NamespaceOnServer;
        let text = by.selector(&slots, true).unwrap();
        assert_eq!(text.matches("shardRange").count(), MOST_RANGES);
        assert!(by.selected(&slots, true).unwrap().is_superset(&slots));
    }

    #[test]
    fn other_texts_are_no_sets() {
        for text in ["a", "1-", "-1", "2-1", "256", "0-256", "1,x"] {
            let refused = text.parse::<SlotSet>().unwrap_err();
            assert!(refused.to_string().contains(text), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn a_set_is_read_from_its_text(words: [u64; 4]) {
            let set = SlotSet(words);
            prop_assert_eq!(set.to_string().parse::<SlotSet>(), Ok(set));
            prop_assert_eq!(set.iter().collect::<SlotSet>(), set);
            prop_assert_eq!(set.iter().count(), set.len());
        }

        #[test]
        fn sets_are_combined_by_slot(one: [u64; 4], other: [u64; 4], slot: u8) {
            let (one, other, slot) = (SlotSet(one), SlotSet(other), ShardSlot(slot));
            let (in_one, in_other) = (one.contains(slot), other.contains(slot));
            prop_assert_eq!(one.union(&other).contains(slot), in_one || in_other);
            prop_assert_eq!(one.intersection(&other).contains(slot), in_one && in_other);
            prop_assert_eq!(one.difference(&other).contains(slot), in_one && !in_other);
            prop_assert!(one.union(&other).is_superset(&one));
        }
    }
}
