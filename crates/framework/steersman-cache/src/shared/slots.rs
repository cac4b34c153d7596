//! Driver: the slots of a cache that holds only a part of its kinds: which are loaded, and which keys are foreign.

use steersman_informer::{InformerState, ShardFilter, UntypedInformer};
use steersman_object::{ObjectKey, SlotSet};

use super::SharedCache;
use crate::coverage::Coverage;
use crate::error::Error;
use crate::informer_entry::InformerEntry;

impl SharedCache {
    /// Returns the filter of a kind; `None` if every replica caches the whole kind.
    pub(crate) fn shard_filter(&self, coverage: &Coverage) -> Option<&ShardFilter> {
        self.options.shards.as_ref().filter(|_| coverage.is_sharded)
    }

    /// Returns whether this replica wants to hold the slot of a key. True for kinds without a filter.
    pub(crate) fn wants(&self, coverage: &Coverage, key: &ObjectKey) -> bool {
        self.shard_filter(coverage).is_none_or(|filter| {
            let key = key.placed(coverage.kind());
            filter.selects(&filter.wanted(), &key)
        })
    }

    /// Checks, after a read found no object, whether the object is absent. Returns true if the object was stored after
    /// the read, so that it must be read again.
    ///
    /// SHARD-9: an object is absent only if its informer holds all objects of its slot.
    pub(crate) fn has_arrived(
        &self,
        coverage: &Coverage,
        untyped: &UntypedInformer,
        key: &ObjectKey,
    ) -> Result<bool, Error> {
        let Some(filter) = self.shard_filter(coverage) else {
            return Ok(false);
        };
        match (untyped.knows(key), filter.slot_of(key)) {
            (None, Some(slot)) => Err(Error::ForeignSlot {
                kind: coverage.kind().clone(),
                key: key.clone(),
                slot,
                is_wanted: filter.wanted().contains(slot),
            }),
            (known, _) => Ok(known == Some(true)),
        }
    }

    /// Returns the slots that all informers with a filter hold completely; all slots if there is no such informer.
    pub(crate) fn shards_loaded(&self) -> SlotSet {
        let loaded = |all: SlotSet, entry: InformerEntry| all.intersection(&loaded_by(&entry));
        self.shard_holders().fold(SlotSet::ALL, loaded)
    }

    /// Returns the slots that any informer with a filter holds.
    pub(crate) fn shards_held(&self) -> SlotSet {
        let held = |all: SlotSet, entry: InformerEntry| all.union(&loaded_by(&entry));
        self.shard_holders().fold(SlotSet::EMPTY, held)
    }

    /// Waits until all informers with a filter hold these slots completely.
    pub(crate) async fn wait_for_shards(&self, slots: &SlotSet) {
        let lacking = || {
            let mut holders = self.shard_holders();
            holders.find(|entry| !loaded_by(entry).is_superset(slots))
        };
        while let Some(entry) = lacking() {
            if entry.has_synced() {
                // The wait fails if the informer stops, and the informer is then left out.
                let _stopped = entry.untyped().wait_for_slots(slots).await;
            } else {
                entry.settled().await;
            }
        }
    }

    /// Returns the informers with a filter, without stopped ones, and without those with requests that fail before
    /// their first sync: they delay only their own readers (CACHE-2).
    fn shard_holders(&self) -> impl Iterator<Item = InformerEntry> + use<> {
        let entries = self.registry.read().entries().into_iter();
        entries.filter(|entry| {
            entry.advice().coverage.is_sharded
                && match entry.untyped().state() {
                    InformerState::Stopped => false,
                    InformerState::Degraded { .. } => entry.has_synced(),
                    _ => true,
                }
        })
    }
}

fn loaded_by(entry: &InformerEntry) -> SlotSet {
    *entry.untyped().loaded().borrow()
}
