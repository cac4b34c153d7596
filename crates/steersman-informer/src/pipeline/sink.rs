//! Driver: what the reflector is given: the queue to fill, and the store to compare with.

use std::sync::Arc;

use steersman_api::{Decoded, RawObject};
use tokio::time::Instant;

use super::Core;
use crate::body::Extent;
use crate::delta::{Arrived, Delta, Item};
use crate::entry::RawEntry;
use crate::queue::Queued;
use crate::queue::channel::Sender;
use crate::reflector::driver::Sink;
use crate::reflector::ingest_stream::{EventType, Ingest};
use crate::reflector::step::Problem;

/// No more live events than these are on their way to the store without being packed.
const FRESH: usize = 16;

/// The reflector's end of the pipeline.
pub(super) struct ReflectorSink {
    pub(super) core: Arc<Core>,
    pub(super) sender: Sender,
}

impl Core {
    /// Packs what came, where that was not done yet.
    pub(super) fn pack_all(&self, entries: &[RawEntry]) {
        if entries.iter().fold(false, |due, entry| entry.pack() | due) {
            self.train.notify_one();
        }
    }
}

impl Ingest for Arc<Core> {
    fn ingest(&self, change: EventType, decoded: Decoded<RawObject>, extent: Extent) -> Arrived {
        let object = match decoded {
            Decoded::Good(object) => object,
            Decoded::Malformed(malformed) => return Decoded::Malformed(malformed).into(),
        };
        let (stored, checks, judges) = {
            let indexer = self.shared.indexer.read();
            let stored = indexer.get(&object.head().key).cloned();
            (stored, indexer.checks(extent), indexer.judges_of(extent))
        };
        let mut is_new = true;
        let entry = match stored {
            // STORE-6
            Some(stored) if stored.is_of(object.head()) => {
                if extent == Extent::Whole {
                    stored.raw_body().complete(object);
                }
                is_new = false;
                stored
            }
            stored => match self.transformed(object) {
                Ok(object) => {
                    let (context, before) = (&self.context, stored.as_ref());
                    RawEntry::ingest(object, extent, context, before, &self.interners)
                }
                Err(malformed) => return Item::from(malformed).into(),
            },
        };
        // Every type that looks at it decodes it here, from the bytes at hand, before any lock is taken.
        for check in checks {
            let _kept_for_later = check(&entry);
        }
        // VIEW-6: so do their indexes. What is stored was judged when it came.
        let judges = judges.filter(|_| is_new);
        let judged = judges.map(|judges| judges.judge(&entry, change == EventType::Deleted));
        Arrived {
            item: Decoded::Good(entry),
            judged,
        }
    }

    fn pack(&self, arrived: &Arrived) {
        if let Decoded::Good(entry) = &arrived.item {
            self.pack_all(std::slice::from_ref(entry));
        }
    }
}

impl Sink for ReflectorSink {
    type Ingest = Arc<Core>;

    fn ingest(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    async fn send(&self, delta: Delta) {
        let since = Instant::now().into_std();
        // PACK-6
        if let Delta::Put(arrived) | Delta::Removed(arrived) = &delta
            && self.sender.waiting() >= FRESH
        {
            self.core.pack(arrived);
        }
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
