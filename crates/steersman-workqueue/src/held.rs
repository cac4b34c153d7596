//! Words: what the queue knows of a key only while a ticket holds it.

use std::time::Instant;

use crate::options::Priority;
use crate::ready::Slot;

/// A key that a ticket holds, and the start of the hold.
///
/// These facts are stored outside the table, because only few of a queue's keys are held.
pub(crate) struct HeldKey {
    pub(crate) slot: Slot,
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
    pub(crate) keep_backoff: bool,
}

// === impl HeldKey ===

impl HeldKey {
    pub(crate) fn new(slot: Slot, since: Instant) -> Self {
        Self {
            slot,
            since,
            again: None,
        }
    }

    /// Records an add during the hold. The rerun keeps the backoff only if all adds keep it.
    pub(crate) fn mark(&mut self, priority: Priority, keep_backoff: bool) {
        let again = self.again.get_or_insert(Rerun {
            priority,
            keep_backoff,
        });
        again.priority = again.priority.max(priority);
        again.keep_backoff &= keep_backoff;
    }
}
