//! Machine: delayed keys, ordered by their deadlines.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::ready::KeySlot;

/// Identifies the delay of one key: the deadline, and a number that orders equal deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DelayId {
    pub(crate) deadline: Instant,
    arrival: u64,
}

/// The keys that wait for a deadline, each at most once.
#[derive(Debug, Default)]
pub(crate) struct DelayedKeys {
    by_deadline: BTreeMap<DelayId, KeySlot>,
    arrivals: u64,
}

impl DelayedKeys {
    /// Returns the slots of the keys in the order of their deadlines.
    pub(crate) fn slots(&self) -> impl Iterator<Item = KeySlot> + '_ {
        self.by_deadline.values().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_deadline.is_empty()
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        let (first, _) = self.by_deadline.first_key_value()?;
        Some(first.deadline)
    }

    /// Delays `slot` until `deadline`, unless its current delay `present` ends at the same time or earlier (WQ-4).
    /// Returns the new delay; `None` if the present delay stays.
    pub(crate) fn insert(
        &mut self,
        slot: KeySlot,
        deadline: Instant,
        present: Option<DelayId>,
    ) -> Option<DelayId> {
        if let Some(present) = present {
            if present.deadline <= deadline {
                return None;
            }
            self.remove(present);
        }
        let delay = DelayId {
            deadline,
            arrival: self.arrivals,
        };
        self.arrivals += 1;
        self.by_deadline.insert(delay, slot);
        Some(delay)
    }

    pub(crate) fn remove(&mut self, delay: DelayId) {
        self.by_deadline.remove(&delay);
    }

    /// Removes and returns one key with a deadline in the past.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<KeySlot> {
        if self.earliest()? > now {
            return None;
        }
        self.by_deadline.pop_first().map(|(_, slot)| slot)
    }

    pub(crate) fn clear(&mut self) {
        self.by_deadline.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // WQ-4
    #[test]
    fn the_earlier_of_two_deadlines_stands_in_either_order_of_adds() {
        let now = tokio::time::Instant::now().into_std();
        let at = |s| now + Duration::from_secs(s);
        let mut delayed = DelayedKeys::default();
        let first = delayed.insert(1, at(10), None);
        assert_eq!(delayed.insert(1, at(20), first), None);
        assert!(delayed.insert(1, at(5), first).is_some());
        delayed.insert(2, at(5), None);
        assert_eq!(delayed.pop_due(at(4)), None);
        assert_eq!(delayed.pop_due(at(5)), Some(1));
        assert_eq!(
            delayed.pop_due(at(5)),
            Some(2),
            "equal deadlines in order of arrival"
        );
        assert!(delayed.is_empty());
    }
}
