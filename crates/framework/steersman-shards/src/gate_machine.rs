//! Machine: decides on which slots this replica works, from its membership, its caches and the work that runs.

use std::collections::BTreeMap;
use std::time::Instant;

use steersman_object::{ShardSlot, SlotSet};

use crate::machine::Holding;

/// The slots of one replica.
///
/// A slot that the replica loses stays in the caches until no work runs on it, and the next owner waits until the caches
/// have released it. So work that runs can read to its end, and a slot that comes back after a release has its objects
/// listed again.
#[derive(Debug, Default)]
pub(crate) struct GateMachine {
    holding: Holding,
    /// The slots that the caches hold completely.
    loaded: SlotSet,
    /// Whether the caches report what they hold.
    has_caches: bool,
    /// The slots that this replica no longer owns, and that its caches may still hold.
    releasing: SlotSet,
    /// The number of permits of each slot.
    running: BTreeMap<ShardSlot, usize>,
}

/// The answer to a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    Open,
    Waiting,
    Foreign,
}

impl GateMachine {
    pub(crate) fn handle_holding(&mut self, holding: Holding) {
        let lost = self.holding.slots.difference(&holding.slots);
        self.holding = holding;
        self.loaded = self.loaded.intersection(&holding.slots);
        self.releasing = self.releasing.difference(&holding.slots);
        if self.has_caches {
            self.releasing = self.releasing.union(&lost);
        }
    }

    /// Returns the slots that the caches hold: those that this replica owns, and those that it loses while work runs.
    pub(crate) fn cached(&self) -> SlotSet {
        let running = self.running();
        self.holding
            .slots
            .union(&running.intersection(&self.releasing))
    }

    /// Returns the slots on which this replica works.
    pub(crate) fn open(&self) -> SlotSet {
        match self.holding.until {
            Some(_) => self.holding.slots.intersection(&self.loaded),
            None => SlotSet::EMPTY,
        }
    }

    /// Returns whether the replica may work at all: its Lease is renewed in time.
    pub(crate) fn is_renewed(&self) -> bool {
        self.holding.until.is_some()
    }

    /// Asks to work on a slot. [`handle_end`](Self::handle_end) follows an answer of `Open`.
    pub(crate) fn enter(&mut self, slot: ShardSlot, now: Instant) -> Entrance {
        if !self.holding.slots.contains(slot) {
            // Until the caches have released the slot, it may come back without its objects being listed again.
            return match self.releasing.contains(slot) {
                true => Entrance::Waiting,
                false => Entrance::Foreign,
            };
        }
        // SHARD-3: the time counts, because the driver of the membership may be late.
        let may_work = self.holding.until.is_some_and(|until| now < until);
        if !may_work || !self.loaded.contains(slot) {
            return Entrance::Waiting;
        }
        *self.running.entry(slot).or_default() += 1;
        Entrance::Open
    }

    /// Handles the end of work on a slot. Returns whether that frees a slot that this replica no longer owns.
    pub(crate) fn handle_end(&mut self, slot: ShardSlot) -> bool {
        let Some(count) = self.running.get_mut(&slot) else {
            return false;
        };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.running.remove(&slot);
        !self.holding.slots.contains(slot)
    }

    /// Handles that the caches hold no other slots than `cached`, and these slots completely if `is_loaded`. Ignored if
    /// the slots have changed since.
    pub(crate) fn handle_caches(&mut self, cached: SlotSet, is_loaded: bool) {
        if self.cached() != cached {
            return;
        }
        self.releasing = self.releasing.intersection(&cached);
        if is_loaded {
            self.loaded = self.holding.slots;
        }
    }

    /// Handles that the caches report what they hold, or have stopped to do so because they have ended.
    pub(crate) fn handle_followed(&mut self, is_followed: bool) {
        self.has_caches = is_followed;
        if !is_followed {
            self.releasing = SlotSet::EMPTY;
        }
    }

    /// Returns the slots on which work runs, or that the caches have not released: no other member may work on them.
    pub(crate) fn busy(&self) -> SlotSet {
        self.running().union(&self.releasing)
    }

    pub(crate) fn is_working(&self) -> bool {
        !self.running.is_empty()
    }

    fn running(&self) -> SlotSet {
        self.running.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slots(text: &str) -> SlotSet {
        text.parse().unwrap()
    }

    fn holding(text: &str, now: Instant) -> Holding {
        Holding {
            slots: slots(text),
            until: Some(now + Duration::from_secs(10)),
        }
    }

    fn at_start() -> (GateMachine, Instant, ShardSlot) {
        let now = tokio::time::Instant::now().into_std();
        let mut machine = GateMachine::default();
        machine.handle_followed(true);
        machine.handle_holding(holding("0-9", now));
        (machine, now, ShardSlot::new(3))
    }

    #[test]
    fn a_slot_opens_when_the_caches_hold_it() {
        let (mut machine, now, slot) = at_start();
        assert_eq!(machine.enter(slot, now), Entrance::Waiting);
        machine.handle_caches(slots("0-9"), false);
        assert_eq!(machine.enter(slot, now), Entrance::Waiting);
        machine.handle_caches(slots("0-8"), true);
        assert_eq!(machine.enter(slot, now), Entrance::Waiting, "other slots");
        machine.handle_caches(slots("0-9"), true);
        assert_eq!(machine.open(), slots("0-9"));
        assert_eq!(machine.enter(slot, now), Entrance::Open);
        assert!(!machine.handle_end(slot), "the slot stays");
        assert_eq!(machine.enter(ShardSlot::new(10), now), Entrance::Foreign);
        // SHARD-3
        let late = now + Duration::from_secs(10);
        assert_eq!(machine.enter(slot, late), Entrance::Waiting);
        machine.handle_holding(Holding {
            slots: slots("0-9"),
            until: None,
        });
        assert_eq!(machine.open(), SlotSet::EMPTY);
        assert_eq!(machine.cached(), slots("0-9"), "caches survive a loss");
    }

    // SHARD-1
    #[test]
    fn a_lost_slot_is_busy_until_its_work_has_ended_and_the_caches_have_released_it() {
        let (mut machine, now, slot) = at_start();
        machine.handle_caches(slots("0-9"), true);
        assert_eq!(machine.enter(slot, now), Entrance::Open);
        machine.handle_holding(holding("5-9", now));
        assert_eq!(machine.cached(), slots("3,5-9"), "the work can read");
        assert_eq!(machine.busy(), slots("0-4"));
        machine.handle_caches(slots("3,5-9"), true);
        assert_eq!(machine.busy(), slots("3"));
        assert_eq!(machine.enter(ShardSlot::new(0), now), Entrance::Foreign);
        assert_eq!(machine.enter(slot, now), Entrance::Waiting);
        assert!(machine.handle_end(slot));
        assert_eq!(machine.busy(), slots("3"));
        machine.handle_caches(slots("5-9"), true);
        assert_eq!(machine.busy(), SlotSet::EMPTY);
        assert_eq!(machine.enter(slot, now), Entrance::Foreign);
    }

    #[test]
    fn a_slot_that_comes_back_is_loaded_again() {
        let (mut machine, now, slot) = at_start();
        machine.handle_caches(slots("0-9"), true);
        machine.handle_holding(holding("5-9", now));
        assert_eq!(machine.enter(slot, now), Entrance::Waiting, "not released");
        machine.handle_holding(holding("0-9", now));
        assert_eq!(machine.enter(slot, now), Entrance::Waiting, "not loaded");
        // An answer for the slots in between.
        machine.handle_caches(slots("5-9"), true);
        assert_eq!(machine.enter(slot, now), Entrance::Waiting);
        machine.handle_caches(slots("0-9"), true);
        assert_eq!(machine.enter(slot, now), Entrance::Open);
    }

    #[test]
    fn ended_caches_release_everything() {
        let (mut machine, now, slot) = at_start();
        machine.handle_caches(slots("0-9"), true);
        assert_eq!(machine.enter(slot, now), Entrance::Open);
        machine.handle_followed(false);
        machine.handle_holding(holding("", now));
        assert_eq!(machine.busy(), slots("3"));
        assert!(machine.handle_end(slot));
        assert_eq!(machine.busy(), SlotSet::EMPTY);
    }
}
