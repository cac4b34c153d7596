//! Driver: what the reflector is given: the queue to fill, and the store to compare with.

use std::sync::Arc;

use steersman_api::{Decoded, RawObject};

use super::Core;
use crate::body::Extent;
use crate::delta::{Delta, Item};
use crate::entry::RawEntry;
use crate::queue::channel::Sender;
use crate::reflector::driver::Sink;
use crate::reflector::machine::Problem;

/// The reflector's end of the pipeline.
pub(super) struct Inlet {
    pub(super) core: Arc<Core>,
    pub(super) sender: Sender,
}

impl Sink for Inlet {
    fn ingest(&self, decoded: Decoded<RawObject>, extent: Extent) -> Item {
        decoded.map(|object| {
            let (stored, checks) = {
                let indexer = self.core.shared.indexer.read();
                let stored = indexer.get(&object.head().key).cloned();
                (stored, indexer.checks(extent))
            };
            let quotes = self.core.kind.gvk().kind() != "Secret";
            let entry = match stored {
                // A relist costs memory only for what changed.
                Some(stored) if stored.is_of(object.head()) => {
                    if extent == Extent::Whole {
                        stored.raw_body().complete(object);
                    }
                    stored
                }
                stored => RawEntry::ingest(object, extent, quotes, stored.as_ref()),
            };
            // Every type that looks at it decodes it here, before any lock is taken.
            for check in checks {
                let _kept_for_later = check(&entry);
            }
            entry
        })
    }

    async fn send(&self, delta: Delta) {
        self.sender.send(delta).await;
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
