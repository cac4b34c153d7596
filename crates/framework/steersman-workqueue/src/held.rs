//! Words: what the queue knows of a key only while a ticket holds it.

use std::time::Instant;

use crate::causes::Causes;
use crate::options::{AddDelay, Priority};
use crate::ready::KeySlot;

/// A key that a ticket holds, and the start of the hold.
///
/// These facts are stored outside the table, because only few of a queue's keys are held.
pub(crate) struct HeldKey {
    pub(crate) slot: KeySlot,
    pub(crate) since: Instant,
    // The rerun that adds requested while the key was held (WQ-2). An immediate rerun absorbs a
    // pending delay. A rerun that keeps a backoff leaves the delay in place, because the ticket may
    // end without another run (WQ-4).
    pub(crate) again: Option<Rerun>,
}

/// What an add asked for while its key was held.
#[derive(Clone, Copy)]
pub(crate) struct Rerun {
    pub(crate) priority: Priority,
    pub(crate) add_delay: AddDelay,
    pub(crate) causes: Causes,
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

    /// Records an add during the hold. The rerun has the smallest `AddDelay` of all adds: `Now` if one of them has it.
    pub(crate) fn mark(&mut self, add: Rerun) {
        let again = self.again.get_or_insert(add);
        again.priority = again.priority.max(add.priority);
        again.add_delay = again.add_delay.min(add.add_delay);
        again.causes |= add.causes;
    }
}
