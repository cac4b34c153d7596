//! Driver: the interface of an informer to its reflector: entries, the state and the wanted projection.

use std::sync::Arc;
use std::time::Instant;

use steersman_api::{Decoded, Projection, RawObject};

use super::Core;
use crate::delta::{Arrived, IngestContext};
use crate::ingest::entry_maker::EntryMaker;
use crate::ingest::stream::Ingest;
use crate::queue::channel::QueueLength;
use crate::reflector::driver::ReflectorHost;
use crate::reflector::step::RequestProblem;

pub(super) struct CoreHost {
    pub(super) core: Arc<Core>,
    pub(super) queued: QueueLength,
}

/// Makes entries for one run of an informer.
#[derive(Clone)]
pub(super) struct Ingester {
    entries: Arc<EntryMaker>,
    queued: QueueLength,
}

impl Ingest for Ingester {
    fn ingest(&self, decoded: Decoded<RawObject>, arrived_as: IngestContext) -> Arrived {
        self.entries
            .ingest(decoded, arrived_as, || self.queued.get())
    }
}

impl ReflectorHost for CoreHost {
    type Ingest = Ingester;

    fn ingest(&self) -> Ingester {
        Ingester {
            entries: Arc::clone(&self.core.entries),
            queued: self.queued.clone(),
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

    fn relists(&self) -> u64 {
        *self.core.relists.borrow()
    }

    async fn wants_list(&self, projection: Projection, relists: u64) {
        let mut wanted = self.core.wanted.subscribe();
        let mut requested = self.core.relists.subscribe();
        // The core keeps the senders of these channels, so the waits cannot fail.
        tokio::select! {
            biased;
            _ = wanted.wait_for(|wanted| *wanted > projection) => {}
            _ = requested.wait_for(|requested| *requested > relists) => {}
        }
    }
}
