//! Driver: makes an entry of each object that arrives: transformed, decoded, decoded and packed.
//!
//! The reflector gets the finished entry. The JSON comes without `managedFields`: the decoder of
//! `steersman-api` cut them out.

use std::sync::Arc;

use steersman_api::{Decoded, Malformed, RawObject};

use super::Core;
use super::ingest_plan::{IngestPlan, packs_on_arrival};
use crate::delta::{Arrived, Item};
use crate::entry::RawEntry;
use crate::queue::channel::QueueLength;
use crate::reflector::ingest_stream::{EventType, Ingest, IngestContext};
use crate::store::ViewSnapshot;
use crate::view_results::DecodeReport;
use steersman_api::Projection;

/// Makes entries for one run of an informer.
#[derive(Clone)]
pub(super) struct Ingester {
    pub(super) core: Arc<Core>,
    /// The number of deltas that wait for the store.
    pub(super) queued: QueueLength,
}

impl Ingest for Ingester {
    fn ingest(&self, decoded: Decoded<RawObject>, arrived_as: IngestContext) -> Arrived {
        let made = match decoded {
            Decoded::Good(object) => self.core.made(object, arrived_as),
            Decoded::Malformed(malformed) => return Decoded::Malformed(malformed).into(),
        };
        match made {
            Ok((entry, report)) => {
                if packs_on_arrival(arrived_as.in_list, || self.queued.get()) {
                    self.core.pack_all(std::slice::from_ref(&entry));
                }
                Arrived {
                    item: Decoded::Good(entry),
                    report,
                }
            }
            Err(malformed) => Item::from(malformed).into(),
        }
    }
}

impl Core {
    /// Makes an entry and decodes it, or takes the stored entry of the same version and form, which
    /// was decoded when it arrived. All types that look at the object decode it here, before any lock
    /// is taken.
    fn made(
        &self,
        object: RawObject,
        arrived_as: IngestContext,
    ) -> Result<(RawEntry, Option<DecodeReport>), Malformed> {
        let projection = arrived_as.projection;
        let (stored, decoders) = {
            let indexer = self.shared.indexer.read();
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
            Some(stored) if !self.context.changes_form() => return reused(stored),
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
        let report = decoder(&decoders, &entry, arrived_as);
        Ok((entry, report))
    }

    /// Makes an entry. `before` is the entry that is stored under its key.
    pub(super) fn entry_of(
        &self,
        object: RawObject,
        projection: Projection,
        before: Option<&RawEntry>,
    ) -> RawEntry {
        RawEntry::ingest(object, projection, &self.context, before, &self.interners)
    }

    /// Applies the informer's transform. An object for which it fails is malformed for every type.
    pub(super) fn transformed(&self, object: RawObject) -> Result<RawObject, Malformed> {
        let Some(transform) = &self.options.transform else {
            return Ok(object);
        };
        let (key, uid) = (object.head().key.clone(), object.head().uid.clone());
        let version = object.head().version.clone();
        let transformed = transform.apply(object, self.context.quotes());
        transformed.map_err(|problem| Malformed::new(key, uid, version, problem))
    }

    /// Packs the bodies that are not packed yet, and wakes the training if it is due.
    pub(super) fn pack_all(&self, entries: &[RawEntry]) {
        if entries.iter().fold(false, |due, entry| entry.pack() | due) {
            self.train.notify_one();
        }
    }
}

fn decoder(
    decoders: &ViewSnapshot,
    entry: &RawEntry,
    arrived_as: IngestContext,
) -> Option<DecodeReport> {
    let gone = arrived_as.event_type == EventType::Deleted;
    decoders.judge_arrival(entry, arrived_as.projection, gone)
}
