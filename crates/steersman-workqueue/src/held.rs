//! Words: what is known of a key while a ticket holds it.

use std::time::Instant;

use crate::options::Priority;
use crate::ready::Slot;

/// A key that a ticket holds, and since when.
///
/// What is known of a key only while it is held is here and not in the table: a queue has many keys, and few of
/// them are held.
pub(crate) struct HeldKey {
    pub(crate) slot: Slot,
    pub(crate) since: Instant,
    // An add came meanwhile (WQ-2). A marked key has no deadline, for the add absorbed what there was,
    // and the run to come absorbs what follows; unless the mark keeps a backoff, for then the deadline
    // may be what the key is left with (WQ-4).
    pub(crate) again: Option<Rerun>,
}

/// What an add left behind that came while the key was held.
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

    /// Notes an add. A mark that keeps no backoff is the stronger one.
    pub(crate) fn mark(&mut self, priority: Priority, keep_backoff: bool) {
        let again = self.again.get_or_insert(Rerun {
            priority,
            keep_backoff,
        });
        again.priority = again.priority.max(priority);
        again.keep_backoff &= keep_backoff;
    }
}
