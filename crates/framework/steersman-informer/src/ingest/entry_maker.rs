//! Driver: makes an entry of each object that arrives: transformed, decoded for each view, and packed.
//!
//! The decoder of `steersman-api` has removed `managedFields` from the JSON before.

use std::sync::Arc;

use steersman_api::{Decoded, Malformed, Projection, RawObject};
use tokio::sync::Notify;

use crate::body::BodyContext;
use crate::delta::{Arrived, DeltaItem, EventType, IngestContext};
use crate::entry::{Interners, RawEntry};
use crate::ingest::plan::{IngestPlan, packs_on_arrival};
use crate::store::StoreState;
use crate::transform::Transform;
use crate::view_results::DecodeReport;

pub(crate) struct EntryMaker {
    transform: Option<Transform>,
    interners: Interners,
    context: Arc<BodyContext>,
    store: Arc<StoreState>,
    /// Wakes the task that trains compression dictionaries when a training may be due.
    pub(super) train: Notify,
}

impl EntryMaker {
    pub(crate) fn new(
        transform: Option<Transform>,
        context: BodyContext,
        store: Arc<StoreState>,
    ) -> Self {
        Self {
            transform,
            interners: Interners::default(),
            context: Arc::new(context),
            store,
            train: Notify::new(),
        }
    }

    /// Makes an entry of an arrived object, or returns the stored entry of the same version. `queued` returns the
    /// number of deltas that wait for the store.
    pub(crate) fn ingest(
        &self,
        decoded: Decoded<RawObject>,
        arrived_as: IngestContext,
        queued: impl FnOnce() -> usize,
    ) -> Arrived {
        let made = match decoded {
            Decoded::Good(object) => self.made(object, arrived_as),
            Decoded::Malformed(malformed) => return Decoded::Malformed(malformed).into(),
        };
        match made {
            Ok((entry, report)) => {
                if packs_on_arrival(arrived_as.in_list, queued) {
                    self.pack_all(std::slice::from_ref(&entry));
                }
                Arrived {
                    item: Decoded::Good(entry),
                    report,
                }
            }
            Err(malformed) => DeltaItem::from(malformed).into(),
        }
    }

    /// Makes an entry and decodes it for every view, before any lock is taken. A stored entry of the same version with
    /// equal JSON was decoded when it arrived, and is returned instead.
    fn made(
        &self,
        object: RawObject,
        arrived_as: IngestContext,
    ) -> Result<(RawEntry, Option<DecodeReport>), Malformed> {
        let projection = arrived_as.projection;
        let (stored, decoders) = {
            let indexer = self.store.indexer.read();
            (indexer.get(&object.head().key).cloned(), indexer.decoders())
        };
        let plan = IngestPlan::of(stored.as_ref(), object.head(), projection);
        let reused = |stored: &RawEntry| {
            decoders.decode_for_waiting_views(stored, projection);
            Ok((stored.clone(), None))
        };
        let object = match stored.as_ref().filter(|_| plan != IngestPlan::Create) {
            Some(stored)
                if plan == IngestPlan::Complete && !stored.raw_body().holds(projection) =>
            {
                let object = self.transformed(object)?;
                stored.note_applies(object.applies().to_vec());
                stored.raw_body().complete(object, projection);
                return reused(stored);
            }
            Some(stored) if !self.context.changes_form => return reused(stored),
            Some(stored) => {
                let object = self.transformed(object)?;
                if stored.raw_body().has_form(object.json(), projection) {
                    return reused(stored);
                }
                object
            }
            None => self.transformed(object)?,
        };
        let entry = self.entry_of(object, projection, stored.as_ref());
        let gone = arrived_as.event_type == EventType::Deleted;
        let report = decoders.decode_arrival(&entry, projection, gone);
        Ok((entry, report))
    }

    /// Makes an entry. It shares its key with `before`, the entry that is stored under the key.
    pub(crate) fn entry_of(
        &self,
        object: RawObject,
        projection: Projection,
        before: Option<&RawEntry>,
    ) -> RawEntry {
        RawEntry::ingest(object, projection, &self.context, before, &self.interners)
    }

    /// Applies the informer's transform. An object for which the transform fails is malformed for every type.
    pub(crate) fn transformed(&self, object: RawObject) -> Result<RawObject, Malformed> {
        let Some(transform) = &self.transform else {
            return Ok(object);
        };
        let (key, uid) = (object.head().key.clone(), object.head().uid.clone());
        let version = object.head().version.clone();
        let transformed = transform.apply(object, self.context.quotes);
        transformed.map_err(|problem| Malformed::new(key, uid, version, problem))
    }

    /// Packs the entries that are not packed yet, and wakes the dictionary training if a training is due.
    pub(crate) fn pack_all(&self, entries: &[RawEntry]) {
        if entries.iter().fold(false, |due, entry| entry.pack() | due) {
            self.train.notify_one();
        }
    }

    pub(crate) fn stored(&self) -> Vec<RawEntry> {
        self.store.indexer.read().entries(None).cloned().collect()
    }

    pub(super) fn context(&self) -> &BodyContext {
        &self.context
    }

    pub(crate) fn wake_training(&self) {
        self.train.notify_one();
    }

    /// Drops shared values that no stored object uses, and wakes the training if few bodies use the dictionary.
    pub(crate) fn sweep(&self) {
        self.interners.sweep(self.store.indexer.read().len());
        if self.context.pack.is_dictionary_unused() {
            self.wake_training();
        }
    }
}
