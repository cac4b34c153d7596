//! Driver: what the reflector is given: the queue to fill, and the store to compare with.

use std::sync::Arc;

use steersman_api::{Decoded, RawObject};
use tokio::time::Instant;

use super::Core;
use crate::body::Extent;
use crate::delta::{Delta, Item};
use crate::entry::RawEntry;
use crate::queue::Queued;
use crate::queue::channel::Sender;
use crate::reflector::driver::Sink;
use crate::reflector::intake::Ingest;
use crate::reflector::step::Problem;

/// The reflector's end of the pipeline.
pub(super) struct Inlet {
    pub(super) core: Arc<Core>,
    pub(super) sender: Sender,
}

impl Ingest for Arc<Core> {
    fn ingest(&self, decoded: Decoded<RawObject>, extent: Extent) -> Item {
        let object = match decoded {
            Decoded::Good(object) => object,
            Decoded::Malformed(malformed) => return Decoded::Malformed(malformed),
        };
        let (stored, checks) = {
            let indexer = self.shared.indexer.read();
            let stored = indexer.get(&object.head().key).cloned();
            (stored, indexer.checks(extent))
        };
        let entry = match stored {
            // STORE-6
            Some(stored) if stored.is_of(object.head()) => {
                if extent == Extent::Whole {
                    stored.raw_body().complete(object);
                }
                stored
            }
            stored => match self.transformed(object) {
                Ok(object) => {
                    let (shelf, before) = (&self.shelf, stored.as_ref());
                    RawEntry::ingest(object, extent, shelf, before, &self.pools)
                }
                Err(malformed) => return Decoded::Malformed(malformed),
            },
        };
        // Every type that looks at it decodes it here, from the bytes at hand, before any lock is taken.
        for check in checks {
            let _kept_for_later = check(&entry);
        }
        if entry.raw_body().pack() {
            self.learn.notify_one();
        }
        Decoded::Good(entry)
    }
}

impl Sink for Inlet {
    type Ingest = Arc<Core>;

    fn ingest(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    async fn send(&self, delta: Delta) {
        let since = Instant::now().into_std();
        if let Some(gauges) = self.core.counters.gauges() {
            match &delta {
                Delta::Bookmark { .. } => gauges.hear_bookmark(since),
                _ => gauges.hear_event(since),
            }
            gauges.enqueue();
        }
        self.sender.send(Queued::new(delta, since)).await;
    }

    fn report(&self, problem: Option<&Problem>) {
        self.core.report(problem);
    }

    fn wanted(&self) -> Extent {
        self.core.wanted()
    }

    async fn wants_more(&self, than: Extent) {
        let mut wanted = self.core.wanted.subscribe();
        // The sender lives in the core itself, so the wait cannot fail.
        let _more = wanted.wait_for(|wanted| *wanted > than).await;
    }
}
