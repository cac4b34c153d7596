//! Driver: keeps only objects of the wanted slots in the store, and publishes the slots that the store holds.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use steersman_object::{Kind, ObjectKey, ShardBy, SlotSet};
use tokio::sync::watch;
use tracing::warn;

use super::{Core, StoreWriter};
use crate::error::Error;
use crate::options::InformerOptions;
use crate::shard_filter::ShardFilter;
use crate::shard_filter::slot_ledger::{ListSlots, SlotDemand, SlotLedger};
use crate::store::StoreChange;

/// The slots of one informer with a filter.
///
/// The order of locks: the writer's lock before the ledger. The set of wanted slots is read only under the lock of the
/// ledger, so that the ledger sees the sets in their order.
pub(super) struct InformerSlots {
    filter: ShardFilter,
    ledger: Mutex<SlotLedger>,
    kind: Kind,
    asked: Mutex<AskedSlots>,
}

/// The slots of which the server was asked for the objects, with `shardSelector`.
#[derive(Default)]
struct AskedSlots {
    newest: SlotSet,
    /// Those before, which a watch may still deliver.
    former: SlotSet,
    /// Whether the log says that the server sends the objects of other slots, too.
    is_logged: bool,
}

impl AskedSlots {
    /// Records a request for the objects of the selected slots.
    fn ask(&mut self, selected: SlotSet) {
        if selected != self.newest {
            self.former = self.newest;
            self.newest = selected;
        }
    }

    /// Records that an object arrived. Returns whether it is the first one that the server was not asked for.
    fn note_arrival(&mut self, is_asked: impl FnOnce(&SlotSet) -> bool) -> bool {
        let is_first = !self.is_logged && !is_asked(&self.newest.union(&self.former));
        self.is_logged |= is_first;
        is_first
    }
}

impl InformerSlots {
    pub(super) fn of(options: &InformerOptions, kind: &Kind) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            filter: options.shards.clone()?,
            ledger: Mutex::new(SlotLedger::new()),
            kind: kind.clone(),
            asked: Mutex::default(),
        }))
    }

    /// Returns the `shardSelector` of a request for the objects of these slots; `None` for all objects.
    pub(super) fn select_for_request(&self, slots: &SlotSet) -> Option<String> {
        let (by, is_namespaced) = (self.filter.by, self.kind.is_namespaced());
        if self.may_be_filtered() && !slots.is_empty() {
            let selected = by.selected(slots, is_namespaced);
            self.asked.lock().ask(selected.unwrap_or(SlotSet::ALL));
        }
        by.selector(slots, is_namespaced)
    }

    /// Returns whether a server can know the hash by which these objects are divided.
    fn may_be_filtered(&self) -> bool {
        self.filter.by == ShardBy::NamespaceOnServer && self.kind.is_namespaced()
    }

    /// Logs the first object that shows that the server sends what it was not asked for.
    pub(super) fn note_foreign(&self, key: &ObjectKey) {
        if !self.may_be_filtered() {
            return;
        }
        let is_asked = |slots: &SlotSet| self.filter.selects(slots, key);
        if self.asked.lock().note_arrival(is_asked) {
            warn!(
                kind = self.kind.qualified_plural(),
                "the API server does not know shardSelector (KEP-5866) and sends the objects of all shards: this replica drops those of others itself"
            );
        }
    }

    /// Locks the ledger, with the slots that are wanted now.
    fn ledger(&self) -> MutexGuard<'_, SlotLedger> {
        let mut ledger = self.ledger.lock();
        ledger.want(self.filter.wanted());
        ledger
    }

    /// Returns whether the reflector follows the slot of the object with this key.
    pub(super) fn follows(&self, key: &ObjectKey) -> bool {
        self.filter.selects(self.ledger().followed(), key)
    }

    pub(super) fn demand(&self) -> SlotDemand {
        self.ledger().demand()
    }

    pub(super) fn begin_list(&self, is_newest: bool) -> ListSlots {
        self.ledger().begin_list(is_newest)
    }

    pub(super) fn followed(&self) -> SlotSet {
        *self.ledger().followed()
    }

    /// Waits until a slot is gained, or, unless the informer rests, until no slot is wanted.
    pub(super) async fn need_attention(&self, is_resting: bool) {
        let mut wanted = self.filter.slots.clone();
        loop {
            wanted.mark_unchanged();
            match self.demand() {
                SlotDemand::Gained => return,
                SlotDemand::Nothing if !is_resting => return,
                SlotDemand::Nothing | SlotDemand::Followed => {}
            }
            if wanted.changed().await.is_err() {
                // The sender was dropped, so the set stays.
                return std::future::pending().await;
            }
        }
    }
}

impl Core {
    /// Returns a receiver of the slots of which the store has all objects.
    pub(crate) fn loaded(&self) -> watch::Receiver<SlotSet> {
        self.loaded.subscribe()
    }

    /// Waits until the store has all objects of these slots.
    pub(crate) async fn wait_for_slots(&self, slots: &SlotSet) -> Result<(), Error> {
        let (mut loaded, mut progress) = (self.loaded(), self.progress.subscribe());
        tokio::select! {
            biased;
            // The core keeps the senders of these channels, so the waits cannot fail.
            _ = loaded.wait_for(|loaded| loaded.is_superset(slots)) => Ok(()),
            _ = progress.wait_for(|progress| progress.stopped) => Err(Error::Stopped {
                kind: self.kind.to_string(),
            }),
        }
    }

    /// Returns whether an object is stored under a key; `None` if it is not, and the store does not have all objects of
    /// its slot.
    pub(crate) fn knows(&self, key: &ObjectKey) -> Option<bool> {
        let indexer = self.shared.indexer.read();
        let is_stored = indexer.get(key).is_some();
        (is_stored || self.holds_slot(indexer.loaded(), key)).then_some(is_stored)
    }

    /// Returns whether the store has all objects of the slot of this key.
    pub(super) fn holds_slot(&self, loaded: &SlotSet, key: &ObjectKey) -> bool {
        let slots = self.slots.as_ref();
        slots.is_none_or(|slots| slots.filter.selects(loaded, key))
    }

    /// SHARD-4: removes the objects of slots that are not wanted any more, without a delete event. Returns the slots of
    /// which the store has all objects.
    pub(super) fn release_lost(&self, writer: &mut StoreWriter) -> SlotSet {
        let before = *self.shared.indexer.read().loaded();
        let Some(slots) = &self.slots else {
            return before;
        };
        let loaded = *slots.ledger().loaded();
        if loaded != before {
            self.release(writer, loaded);
            self.publish_loaded(loaded);
        }
        loaded
    }

    /// SHARD-4: removes the objects of slots that were lost after [`release_lost`](Self::release_lost), so that a list
    /// without these slots does not delete them.
    pub(super) fn release_besides(&self, writer: &mut StoreWriter, listed: &SlotSet) {
        let before = *self.shared.indexer.read().loaded();
        let kept = before.intersection(listed);
        if kept != before {
            self.release(writer, kept);
        }
    }

    fn release(&self, writer: &mut StoreWriter, loaded: SlotSet) {
        // Reads find the slots lost before they find an object of them absent.
        self.shared.indexer.write().keep_slots(loaded);
        let released: Vec<StoreChange> = {
            let indexer = self.shared.indexer.read();
            let stored = indexer.entries(None).map(|entry| entry.key());
            let keys = stored.chain(indexer.malformed().keys());
            let lost = keys.filter(|key| !self.holds_slot(&loaded, key));
            lost.cloned().map(StoreChange::Released).collect()
        };
        self.change(writer, released);
    }

    /// Returns the slots of which a list that is applied now has all objects.
    pub(super) fn loaded_by(&self, list: ListSlots) -> SlotSet {
        let slots = self.slots.as_ref();
        slots.map_or(SlotSet::ALL, |slots| slots.ledger().load(list))
    }

    pub(super) fn publish_loaded(&self, loaded: SlotSet) {
        self.loaded
            .send_if_modified(|published| std::mem::replace(published, loaded) != loaded);
    }
}

/// Releases the objects of lost slots at once, without waiting for an event (SHARD-4).
pub(super) async fn release_lost_slots(core: &Core) {
    let Some(slots) = &core.slots else {
        return std::future::pending().await;
    };
    let mut wanted = slots.filter.slots.clone();
    loop {
        wanted.mark_unchanged();
        core.apply(Vec::new());
        if wanted.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_object::ShardSlot;

    use super::*;

    #[test]
    fn an_object_that_the_server_was_not_asked_for_is_reported_once() {
        let unasked = |asked: &mut AskedSlots, slot| {
            asked.note_arrival(|slots| slots.contains(ShardSlot::new(slot)))
        };
        let mut asked = AskedSlots::default();
        for slots in ["1-2", "1-2", "2-3"] {
            asked.ask(slots.parse().unwrap());
        }
        // The watch of the first request may still deliver.
        assert!(!unasked(&mut asked, 1));
        asked.ask("3-4".parse().unwrap());
        assert!(unasked(&mut asked, 1));
        assert!(!unasked(&mut asked, 5));
    }
}
