//! Driver: the interface of an informer to its reflector: entries, the state and the wanted projection.

use std::sync::Arc;
use std::time::Instant;

use steersman_api::{Decoded, Projection, RawObject};
use steersman_object::{ObjectKey, SlotSet};

use super::Core;
use super::slots::InformerSlots;
use crate::delta::{Arrived, IngestContext};
use crate::ingest::entry_maker::EntryMaker;
use crate::ingest::stream::Ingest;
use crate::metrics::Counters;
use crate::queue::channel::QueueLength;
use crate::reflector::driver::ReflectorHost;
use crate::reflector::step::RequestProblem;
use crate::shard_filter::slot_ledger::{ListSlots, SlotDemand};

pub(super) struct CoreHost {
    pub(super) core: Arc<Core>,
    pub(super) queued: QueueLength,
}

/// Makes entries for one run of an informer.
#[derive(Clone)]
pub(super) struct Ingester {
    entries: Arc<EntryMaker>,
    queued: QueueLength,
    slots: Option<Arc<InformerSlots>>,
    counters: Counters,
}

impl Ingest for Ingester {
    fn ingest(&self, decoded: Decoded<RawObject>, arrived_as: IngestContext) -> Arrived {
        self.entries
            .ingest(decoded, arrived_as, || self.queued.get())
    }

    /// SHARD-5: only objects in followed slots are ingested.
    fn accepts(&self, key: &ObjectKey) -> bool {
        let Some(slots) = self.slots.as_ref().filter(|slots| !slots.follows(key)) else {
            return true;
        };
        self.counters.foreign();
        slots.note_foreign(key);
        false
    }
}

impl ReflectorHost for CoreHost {
    type Ingest = Ingester;

    fn ingest(&self) -> Ingester {
        Ingester {
            entries: Arc::clone(&self.core.entries),
            queued: self.queued.clone(),
            slots: self.core.slots.clone(),
            counters: self.core.counters.clone(),
        }
    }

    fn report(&self, problem: Option<&RequestProblem>) {
        self.core.report(problem);
    }

    fn wanted(&self) -> Projection {
        self.core.wanted()
    }

    fn expect_activity(&self, by: Instant) {
        *self.core.activity_due.lock() = Some(by);
    }

    fn expect_nothing(&self) {
        *self.core.activity_due.lock() = None;
    }

    fn slot_demand(&self) -> SlotDemand {
        let slots = self.core.slots.as_ref();
        slots.map_or(SlotDemand::Followed, |slots| slots.demand())
    }

    fn begin_list(&self, is_newest: bool) -> ListSlots {
        let slots = self.core.slots.as_ref();
        slots.map_or(ListSlots::ALL, |slots| slots.begin_list(is_newest))
    }

    fn followed_slots(&self) -> SlotSet {
        let slots = self.core.slots.as_ref();
        slots.map_or(SlotSet::ALL, |slots| slots.followed())
    }

    fn shard_selector(&self, slots: &SlotSet) -> Option<String> {
        self.core.slots.as_ref()?.select_for_request(slots)
    }

    fn relists(&self) -> u64 {
        *self.core.relists.borrow()
    }

    async fn wants_list(&self, projection: Projection, relists: u64, list: &ListSlots) {
        let slots = async {
            match &self.core.slots {
                Some(slots) => slots.need_attention(list.requested.is_empty()).await,
                None => std::future::pending().await,
            }
        };
        let mut wanted = self.core.wanted.subscribe();
        let mut requested = self.core.relists.subscribe();
        // The core keeps the senders of these channels, so the waits cannot fail.
        tokio::select! {
            biased;
            _ = wanted.wait_for(|wanted| *wanted > projection) => {}
            _ = requested.wait_for(|requested| *requested > relists) => {}
            () = slots => {}
        }
    }
}
