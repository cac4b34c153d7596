//! Driver: the reflector's way into the pipeline: the delta queue, the state and the wanted projection.

use std::sync::Arc;
use std::time::Instant as StdInstant;

use tokio::time::Instant;

use super::Core;
use super::ingest::Ingester;
use crate::delta::Delta;
use crate::queue::Queued;
use crate::queue::channel::Sender;
use crate::reflector::driver::DeltaSink;
use crate::reflector::step::Problem;
use steersman_api::Projection;

/// The reflector's end of the pipeline.
pub(super) struct ReflectorSink {
    pub(super) core: Arc<Core>,
    pub(super) sender: Sender,
}

impl DeltaSink for ReflectorSink {
    type Ingest = Ingester;

    fn ingest(&self) -> Ingester {
        Ingester {
            core: Arc::clone(&self.core),
            queued: self.sender.length(),
        }
    }

    async fn send(&self, delta: Delta) {
        let since = Instant::now().into_std();
        if let Some(gauges) = self.core.counters.gauges() {
            match &delta {
                Delta::Bookmark { .. } => gauges.note_bookmark(since),
                _ => gauges.note_event(since),
            }
            gauges.enqueue();
        }
        self.sender.send(Queued::new(delta, since)).await;
    }

    fn report(&self, problem: Option<&Problem>) {
        self.core.report(problem);
    }

    fn wanted(&self) -> Projection {
        self.core.wanted()
    }

    fn expect_activity(&self, by: StdInstant) {
        *self.core.activity_due.lock() = Some(by);
    }

    fn relists(&self) -> u64 {
        *self.core.relists.borrow()
    }

    async fn wants_list(&self, projection: Projection, relists: u64) {
        let mut wanted = self.core.wanted.subscribe();
        let mut requested = self.core.relists.subscribe();
        // The senders of these channels live in the core, so the waits do not fail.
        tokio::select! {
            _ = wanted.wait_for(|wanted| *wanted > projection) => {}
            _ = requested.wait_for(|requested| *requested > relists) => {}
        }
    }
}
