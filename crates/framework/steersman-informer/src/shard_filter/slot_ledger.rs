//! Machine: decides which slots an informer lists and follows, and of which slots its store is complete.

use steersman_object::{ShardSlot, SlotSet};

/// The slots of one list, ordinary or streaming, and of the watch that continues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListSlots {
    /// The number of the list, from 1.
    pub(crate) number: u64,
    /// The slots of the list: those that were wanted when it began, but not gained slots if it does not ask for the newest
    /// state.
    pub(crate) requested: SlotSet,
}

/// How the wanted slots differ from those that the present list and its watch follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotDemand {
    /// Every wanted slot is followed.
    Followed,
    /// A wanted slot is not followed, so a list is needed (SHARD-6).
    Gained,
    /// No slot is wanted, so no request is needed (SHARD-7).
    Nothing,
}

/// The record of wanted, followed and loaded slots.
///
/// A slot that is lost while a list runs, waits or is followed does not count as part of that list, even if the slot is
/// wanted again: objects of the slot were dropped meanwhile (SHARD-6).
#[derive(Debug)]
pub(crate) struct SlotLedger {
    wanted: SlotSet,
    /// The slots of the newest list that were wanted ever since the list began.
    followed: SlotSet,
    /// The slots of the list in the store that were wanted ever since that list began.
    loaded: SlotSet,
    /// The number of lists that have begun.
    lists: u64,
    /// For each slot, the number of lists that had begun when the slot was lost last.
    lost_in: Box<[u64; ShardSlot::COUNT]>,
}

impl ListSlots {
    /// The list of an informer without a filter.
    pub(crate) const ALL: Self = Self {
        number: 1,
        requested: SlotSet::ALL,
    };
}

impl SlotLedger {
    pub(crate) fn new() -> Self {
        Self {
            wanted: SlotSet::EMPTY,
            followed: SlotSet::EMPTY,
            loaded: SlotSet::EMPTY,
            lists: 0,
            lost_in: Box::new([0; ShardSlot::COUNT]),
        }
    }

    /// Records the slots that are wanted now.
    pub(crate) fn want(&mut self, wanted: SlotSet) {
        if wanted == self.wanted {
            return;
        }
        for lost in self.wanted.difference(&wanted).iter() {
            self.lost_in[usize::from(lost.number())] = self.lists;
        }
        self.wanted = wanted;
        self.followed = self.followed.intersection(&wanted);
        self.loaded = self.loaded.intersection(&wanted);
    }

    /// Begins a list. SHARD-6: only a list of the newest state includes the slots that were gained since the last list.
    pub(crate) fn begin_list(&mut self, is_newest: bool) -> ListSlots {
        self.lists += 1;
        if is_newest {
            self.followed = self.wanted;
        }
        ListSlots {
            number: self.lists,
            requested: self.followed,
        }
    }

    /// Records that a list replaces the store. Returns the slots of which the list has all objects.
    pub(crate) fn load(&mut self, list: ListSlots) -> SlotSet {
        let requested = list.requested.iter();
        let is_whole = |slot: &ShardSlot| self.lost_in[usize::from(slot.number())] < list.number;
        let whole: SlotSet = requested.filter(is_whole).collect();
        self.loaded = whole.intersection(&self.wanted);
        self.loaded
    }

    pub(crate) fn demand(&self) -> SlotDemand {
        match self.followed.is_superset(&self.wanted) {
            _ if self.wanted.is_empty() => SlotDemand::Nothing,
            true => SlotDemand::Followed,
            false => SlotDemand::Gained,
        }
    }

    pub(crate) fn followed(&self) -> &SlotSet {
        &self.followed
    }

    pub(crate) fn loaded(&self) -> &SlotSet {
        &self.loaded
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(text: &str) -> SlotSet {
        text.parse().unwrap()
    }

    // SHARD-6
    #[test]
    fn shard_6_a_gained_slot_needs_a_list_and_a_lost_slot_none() {
        let mut ledger = SlotLedger::new();
        assert_eq!(ledger.demand(), SlotDemand::Nothing);
        ledger.want(set("1-2"));
        assert_eq!(ledger.demand(), SlotDemand::Gained);
        let list = ledger.begin_list(true);
        assert_eq!(ledger.demand(), SlotDemand::Followed);
        assert_eq!(ledger.load(list), set("1-2"));
        ledger.want(set("2"));
        assert_eq!(
            (ledger.demand(), *ledger.loaded()),
            (SlotDemand::Followed, set("2"))
        );
        ledger.want(set("2-3"));
        assert_eq!(
            (ledger.demand(), *ledger.loaded()),
            (SlotDemand::Gained, set("2"))
        );
        // A list of an older state may lack the last writes of the former owner of slot 3.
        let older = ledger.begin_list(false);
        assert_eq!(
            (ledger.demand(), ledger.load(older)),
            (SlotDemand::Gained, set("2"))
        );
        ledger.want(SlotSet::EMPTY);
        assert_eq!(ledger.demand(), SlotDemand::Nothing);
    }

    // SHARD-6
    #[test]
    fn shard_6_a_list_does_not_count_for_a_slot_that_was_lost_after_its_begin() {
        let mut ledger = SlotLedger::new();
        ledger.want(set("1-2"));
        let first = ledger.begin_list(true);
        ledger.want(set("2"));
        ledger.want(set("1-3"));
        assert_eq!(ledger.demand(), SlotDemand::Gained);
        let second = ledger.begin_list(true);
        assert_eq!(*ledger.followed(), set("1-3"));
        assert_eq!(
            ledger.load(first),
            set("2"),
            "slot 1 was lost, and 3 not requested"
        );
        assert_eq!(ledger.load(second), set("1-3"));
    }

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Want(u8),
        Begin(bool),
        Load,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => (0..8_u8).prop_map(Act::Want),
            1 => any::<bool>().prop_map(Act::Begin),
            1 => Just(Act::Load),
        ]
    }

    proptest! {
        // SHARD-4, SHARD-6
        #[test]
        fn shard_6_loaded_slots_were_wanted_ever_since_their_list_began(
            acts in prop::collection::vec(act(), 0..60),
        ) {
            let slots = |bits: u8| -> SlotSet {
                let bits = (0..3).filter(|bit| bits & (1 << bit) != 0);
                bits.map(ShardSlot::new).collect()
            };
            let mut ledger = SlotLedger::new();
            let mut waiting: Vec<(ListSlots, SlotSet)> = Vec::new();
            let (mut loaded, mut begun) = (SlotSet::EMPTY, SlotSet::EMPTY);
            for act in acts {
                match act {
                    Act::Want(bits) => {
                        let wanted = slots(bits);
                        ledger.want(wanted);
                        for (_, kept) in &mut waiting {
                            *kept = kept.intersection(&wanted);
                        }
                        loaded = loaded.intersection(&wanted);
                        begun = begun.intersection(&wanted);
                    }
                    Act::Begin(is_newest) => {
                        let list = ledger.begin_list(is_newest);
                        waiting.push((list, list.requested));
                        prop_assert!(is_newest || list.requested == begun);
                        begun = list.requested;
                    }
                    Act::Load if waiting.is_empty() => {}
                    Act::Load => {
                        let (list, kept) = waiting.remove(0);
                        let before = loaded;
                        loaded = kept;
                        prop_assert_eq!(ledger.load(list), loaded);
                        // Objects that leave with a list are deleted, because their slots are in the list.
                        prop_assert!(loaded.is_superset(&before));
                    }
                }
                prop_assert_eq!(*ledger.loaded(), loaded);
                prop_assert_eq!(*ledger.followed(), begun);
            }
        }
    }
}
