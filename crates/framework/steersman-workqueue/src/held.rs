//! Words: the facts about a key that the queue stores only while a ticket holds the key.

use std::time::Instant;

use crate::causes::Causes;
use crate::options::{AddDelay, Priority};
use crate::ready::KeySlot;

/// A key that a ticket holds, and the start of the hold.
///
/// Stored outside the table of keys, because a queue has few held keys.
pub(crate) struct HeldKey {
    pub(crate) slot: KeySlot,
    pub(crate) since: Instant,
    // The rerun that adds requested while the key was held (WQ-2). An immediate rerun absorbs a pending delay. A rerun
    // that keeps the backoff leaves the delay in place, because the ticket may end without another run (WQ-4).
    pub(crate) again: Option<Rerun>,
}

/// The run that adds requested while their key was held.
#[derive(Clone, Copy)]
pub(crate) struct Rerun {
    pub(crate) priority: Priority,
    pub(crate) add_delay: AddDelay,
    pub(crate) causes: Causes,
}

impl Rerun {
    /// Returns the run of an add without a delay.
    pub(crate) fn at_once(priority: Priority, causes: Causes) -> Self {
        Self {
            priority,
            add_delay: AddDelay::Now,
            causes,
        }
    }
}

// === impl HeldKey ===

impl HeldKey {
    pub(crate) fn new(slot: KeySlot, since: Instant) -> Self {
        Self {
            slot,
            since,
            again: None,
        }
    }

    /// Records an add of the held key. The rerun has the smallest `AddDelay` of all adds, so `Now` if one add has it.
    pub(crate) fn mark(&mut self, add: Rerun) {
        let again = self.again.get_or_insert(add);
        again.priority = again.priority.max(add.priority);
        again.add_delay = again.add_delay.min(add.add_delay);
        again.causes |= add.causes;
    }
}
