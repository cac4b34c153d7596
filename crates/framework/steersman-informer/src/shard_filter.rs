//! Handle: the slots of objects that a replica wants to hold, for informers that cache only a part of their kind.

pub(crate) mod slot_ledger;

use steersman_object::{ObjectKey, ShardBy, ShardSlot, SlotSet};
use tokio::sync::watch;

/// Limits an informer to the objects of some slots, while other replicas hold the objects of the other slots.
///
/// An informer releases the objects of a slot when it sees a set without the slot. A slot that is removed from the set
/// and added again before the informer looks at the set counts as kept: wait until
/// [`UntypedInformer::loaded`](crate::UntypedInformer::loaded) lacks the slot before another replica may own it.
#[derive(Clone, Debug)]
pub struct ShardFilter {
    /// How objects are assigned to slots.
    pub by: ShardBy,
    /// The slots that this replica wants to hold now. The set may change at any time; if the sender is dropped, the last
    /// set stays.
    pub slots: watch::Receiver<SlotSet>,
}

impl ShardFilter {
    /// Limits an informer to the slots in `slots`.
    pub fn new(by: ShardBy, slots: watch::Receiver<SlotSet>) -> Self {
        Self { by, slots }
    }

    /// Returns the slots that this replica wants to hold now.
    pub fn wanted(&self) -> SlotSet {
        *self.slots.borrow()
    }

    /// Returns the slot of the object with this key; `None` if the key was not readable.
    pub fn slot_of(&self, key: &ObjectKey) -> Option<ShardSlot> {
        let is_known = key.namespace().is_some() || !key.name().is_empty();
        is_known.then(|| self.by.slot_of(key))
    }

    /// Returns whether the object with this key is in one of the slots. An object without a readable key is in every
    /// slot, so that it is not treated as absent (CACHE-4).
    pub fn selects(&self, slots: &SlotSet, key: &ObjectKey) -> bool {
        self.slot_of(key).is_none_or(|slot| slots.contains(slot))
    }
}
