//! Words: what the queue knows of a key only while a ticket holds it.

use std::time::Instant;

use crate::options::Priority;
use crate::ready::Slot;

/// A key that a ticket holds, and since when.
///
/// These facts are not in the table, because a queue has many keys and few of them are held.
pub(crate) struct HeldKey {
    pub(crate) slot: Slot,
    pub(crate) since: Instant,
    // The rerun that an add asked for while the key was held (WQ-2). Such a key has no deadline, because
    // an immediate run absorbs it. The exception is a rerun that keeps a backoff: the deadline stays,
    // because the key may end up with nothing else (WQ-4).
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

    /// Records an add. Of two adds the one that keeps no backoff prevails.
    pub(crate) fn mark(&mut self, priority: Priority, keep_backoff: bool) {
        let again = self.again.get_or_insert(Rerun {
            priority,
            keep_backoff,
        });
        again.priority = again.priority.max(priority);
        again.keep_backoff &= keep_backoff;
    }
}
