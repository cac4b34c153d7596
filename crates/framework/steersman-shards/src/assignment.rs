//! Words: the assignment of slots to the members of a group, as the Lease of the group holds it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use steersman_object::{ShardSlot, SlotSet};

/// The assignment of all slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Grows with each change.
    pub(crate) generation: u64,
    /// The [division](steersman_object::ShardBy::division) of the members that own slots.
    #[serde(default)]
    pub(crate) division: String,
    /// Whether members may work by it. The first assignment of a Lease is settled two retry periods after its creation,
    /// because a Lease before it may have been deleted.
    pub(crate) settled: bool,
    pub(crate) grants: Vec<SlotGrant>,
}

/// Slots with one owner and one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotGrant {
    #[serde(with = "slots_as_text")]
    pub(crate) slots: SlotSet,
    /// The name of the member that owns the slots.
    pub(crate) owner: String,
    /// The generation that gave the slots to this owner.
    pub(crate) since: u64,
    /// The members that may have worked on the slots before. The owner waits until each of them has obeyed the generation
    /// `since`, was released, or has expired (SHARD-1).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) former: BTreeSet<String>,
}

/// The content of a grant without its slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotHistory {
    pub(crate) owner: String,
    pub(crate) since: u64,
    pub(crate) former: BTreeSet<String>,
}

mod slots_as_text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use steersman_object::SlotSet;

    pub(super) fn serialize<S: Serializer>(slots: &SlotSet, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(slots)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<SlotSet, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl Assignment {
    /// Reads an assignment. Fails unless each slot has exactly one owner.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let this: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut seen = SlotSet::EMPTY;
        for grant in &this.grants {
            if !seen.intersection(&grant.slots).is_empty() {
                return Err("a slot has two owners".to_owned());
            }
            seen = seen.union(&grant.slots);
        }
        match seen == SlotSet::ALL {
            true => Ok(this),
            false => Err("a slot has no owner".to_owned()),
        }
    }

    /// Makes the grants of the histories of all slots.
    pub(crate) fn of(
        generation: u64,
        division: &str,
        settled: bool,
        histories: &[SlotHistory],
    ) -> Self {
        let mut grants: Vec<SlotGrant> = Vec::new();
        for (number, history) in (0..=u8::MAX).zip(histories) {
            let slot = ShardSlot::new(number);
            let is_same = |grant: &&mut SlotGrant| grant.history() == *history;
            match grants.iter_mut().find(is_same) {
                Some(grant) => grant.slots.insert(slot),
                None => grants.push(SlotGrant {
                    slots: [slot].into_iter().collect(),
                    owner: history.owner.clone(),
                    since: history.since,
                    former: history.former.clone(),
                }),
            }
        }
        Self {
            generation,
            division: division.to_owned(),
            settled,
            grants,
        }
    }

    pub(crate) fn grant_of(&self, slot: ShardSlot) -> Option<&SlotGrant> {
        self.grants.iter().find(|grant| grant.slots.contains(slot))
    }

    /// Returns the slots of a member.
    pub(crate) fn slots_of(&self, member: &str) -> SlotSet {
        let grants = self.grants.iter().filter(|grant| grant.owner == member);
        grants.fold(SlotSet::EMPTY, |slots, grant| slots.union(&grant.slots))
    }

    /// Returns whether a grant names the member as a former owner.
    pub(crate) fn names_former(&self, member: &str) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.former.contains(member))
    }

    /// Returns the history of each slot, in the order of the slots.
    pub(crate) fn histories(&self) -> Vec<SlotHistory> {
        let slots = SlotSet::ALL;
        let grants = slots.iter().filter_map(|slot| self.grant_of(slot));
        grants.map(SlotGrant::history).collect()
    }
}

impl SlotGrant {
    pub(crate) fn history(&self) -> SlotHistory {
        SlotHistory {
            owner: self.owner.clone(),
            since: self.since,
            former: self.former.clone(),
        }
    }
}
