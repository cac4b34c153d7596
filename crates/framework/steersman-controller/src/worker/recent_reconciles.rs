//! Handle: the last reconciles of one controller.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::context::reason::RunReason;
use crate::request::RequestKey;
use crate::status::recent::{RecentReconcile, ReconcileResult};

/// The records of the last reconciles of one controller. Cheap to clone; all clones share the records.
#[derive(Clone)]
pub(crate) struct RecentReconciles<R> {
    kept: Arc<Mutex<VecDeque<Kept<R>>>>,
}

/// A reconcile that has ended. Its request and reason are formatted only when a reader asks for them.
#[derive(Clone)]
pub(crate) struct Kept<R> {
    pub(crate) id: u64,
    pub(crate) request: R,
    pub(crate) reason: RunReason,
    pub(crate) attempt: u32,
    pub(crate) result: ReconcileResult,
    pub(crate) time: Duration,
    pub(crate) ended: Instant,
    pub(crate) next_in: Option<Duration>,
}

/// The largest number of recent reconciles that are kept, to bound their memory.
const MOST: usize = 64;

impl<R: RequestKey> RecentReconciles<R> {
    pub(crate) fn new() -> Self {
        Self {
            kept: Arc::new(Mutex::new(VecDeque::with_capacity(MOST))),
        }
    }

    pub(crate) fn keep(&self, reconcile: Kept<R>) {
        let mut kept = self.kept.lock();
        let oldest = (kept.len() >= MOST).then(|| kept.pop_front());
        kept.push_back(reconcile);
        drop(kept);
        // The oldest reconcile is dropped outside the lock, because dropping its request may run code of the program.
        drop(oldest);
    }

    /// Returns the kept reconciles in readable form, oldest first.
    pub(crate) fn read(&self) -> Vec<RecentReconcile> {
        let kept: Vec<Kept<R>> = self.kept.lock().iter().cloned().collect();
        // Requests are formatted outside the lock, because the formatting may panic.
        let readable = |kept: Kept<R>| RecentReconcile {
            id: kept.id,
            request: format!("{:?}", kept.request),
            reason: kept.reason.to_string(),
            attempt: kept.attempt,
            result: kept.result,
            time: kept.time,
            ended: kept.ended,
            next_in: kept.next_in,
        };
        kept.into_iter().map(readable).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_reconcile_makes_room() {
        let recent = RecentReconciles::new();
        for id in 0..100 {
            recent.keep(Kept {
                id,
                request: id,
                reason: RunReason::default(),
                attempt: 0,
                result: ReconcileResult::Success,
                time: Duration::ZERO,
                ended: steersman_api::clock::now(),
                next_in: None,
            });
        }
        let ids: Vec<u64> = recent.read().iter().map(|one| one.id).collect();
        assert_eq!(ids, (36..100).collect::<Vec<_>>());
        assert_eq!(recent.read()[0].request, "36");
    }
}
