//! Driver: the slots of a cache that holds only a part of its kinds: which are loaded, and which keys are foreign.

use std::time::Duration;

use steersman_informer::{InformerState, ShardFilter, UntypedInformer};
use steersman_object::{ObjectKey, SlotSet};
use tokio::time::timeout;

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
        let entries = self.registry.read().entries().into_iter();
        let running = entries.filter(|entry| {
            let is_stopped = matches!(entry.untyped().state(), InformerState::Stopped);
            entry.advice().coverage.is_sharded && !is_stopped
        });
        running.fold(SlotSet::EMPTY, |all, entry| all.union(&loaded_by(&entry)))
    }

    /// Waits until all informers with a filter hold these slots completely.
    pub(crate) async fn wait_for_shards(&self, slots: &SlotSet) {
        let lacking = || {
            let mut holders = self.shard_holders();
            holders.find(|entry| !loaded_by(entry).is_superset(slots))
        };
        while let Some(entry) = lacking() {
            if entry.has_synced() {
                // The wait fails if the informer stops, and the informer is then left out. It has a limit, because
                // requests that begin to fail end no wait.
                let loaded = entry.untyped().wait_for_slots(slots);
                let _left_out = timeout(BETWEEN_LOOKS, loaded).await;
            } else {
                entry.settled().await;
            }
        }
    }

    /// Returns the informers with a filter, without stopped ones, and without those with requests that fail: a kind that
    /// is not served, or that the server refuses, must not keep all slots closed. Reads of such a kind fail (CACHE-2,
    /// SHARD-9).
    fn shard_holders(&self) -> impl Iterator<Item = InformerEntry> + use<> {
        let entries = self.registry.read().entries().into_iter();
        entries.filter(|entry| {
            let is_out = matches!(
                entry.untyped().state(),
                InformerState::Stopped | InformerState::Degraded { .. }
            );
            entry.advice().coverage.is_sharded && !is_out
        })
    }
}

/// The pause between two looks at an informer that has not loaded its slots.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

fn loaded_by(entry: &InformerEntry) -> SlotSet {
    *entry.untyped().loaded().borrow()
}
