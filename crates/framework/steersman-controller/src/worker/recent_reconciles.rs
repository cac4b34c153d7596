//! Handle: the last reconciles of one controller.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::clock::now;

use crate::journal::recent::RecentReconcile;
use crate::journal::{ErrorGroup, ReconcileRate};
use crate::request::RequestKey;
use crate::worker::kept::Kept;
use crate::worker::reconcile_groups::{Failure, KeptErrors, ReconcileGroups};

/// The records of the last reconciles of one controller. Cheap to clone; all clones share the records.
#[derive(Clone)]
pub(crate) struct RecentReconciles<R> {
    kept: Arc<Mutex<VecDeque<Kept<R>>>>,
    /// Kept for a debug page only.
    groups: Option<Arc<Mutex<ReconcileGroups<R>>>>,
    most: usize,
}

/// The largest number of recent reconciles that are kept, to bound their memory; with and without a debug page.
const MOST: usize = 64;
const MOST_FOR_PAGE: usize = 1024;

impl<R: RequestKey> RecentReconciles<R> {
    pub(crate) fn new(has_page: bool) -> Self {
        Self {
            kept: Arc::new(Mutex::new(VecDeque::with_capacity(MOST))),
            groups: has_page.then(|| Arc::new(Mutex::new(ReconcileGroups::new(now())))),
            most: if has_page { MOST_FOR_PAGE } else { MOST },
        }
    }

    pub(crate) fn keep(&self, reconcile: Kept<R>) {
        if let Some(groups) = &self.groups {
            let request = || format!("{:?}", reconcile.request);
            let failure = Failure::of(&reconcile.result, request);
            let dropped = groups.lock().note(&reconcile, failure);
            drop(dropped);
        }
        let mut kept = self.kept.lock();
        let oldest = (kept.len() >= self.most).then(|| kept.pop_front());
        kept.push_back(reconcile);
        drop(kept);
        // The oldest reconcile is dropped outside the lock, because dropping its request may run code of the program.
        drop(oldest);
    }

    /// Returns the kept reconciles in readable form, oldest first.
    pub(crate) fn read(&self) -> Vec<RecentReconcile> {
        let kept: Vec<Kept<R>> = self.kept.lock().iter().cloned().collect();
        // Requests are formatted outside the lock, because the formatting may panic.
        kept.into_iter().map(Kept::shown).collect()
    }

    /// Returns the slowest reconciles of the last hour, the slowest first.
    pub(crate) fn slowest(&self) -> Vec<RecentReconcile> {
        let slowest = self.groups.as_ref().map(|groups| groups.lock().slowest());
        slowest.into_iter().flatten().map(Kept::shown).collect()
    }

    /// Returns the failures by message, the last one first.
    pub(crate) fn errors(&self) -> Vec<ErrorGroup> {
        let errors = self.groups.as_ref().map(|groups| groups.lock().errors());
        errors
            .into_iter()
            .flatten()
            .map(KeptErrors::shown)
            .collect()
    }

    pub(crate) fn rate(&self) -> ReconcileRate {
        let rate = self.groups.as_ref().map(|groups| groups.lock().rate(now()));
        rate.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::context::event_journal::KeptSteps;
    use crate::context::reason::RunReason;
    use crate::journal::recent::ReconcileResult;

    #[test]
    fn the_oldest_reconcile_makes_room() {
        let recent = RecentReconciles::new(false);
        for id in 0..100 {
            recent.keep(Kept {
                id,
                request: id,
                reason: RunReason::default(),
                attempt: 0,
                result: ReconcileResult::Success,
                time: Duration::ZERO,
                ended: now(),
                next_in: None,
                steps: KeptSteps::default(),
            });
        }
        let ids: Vec<u64> = recent.read().iter().map(|one| one.id).collect();
        assert_eq!(ids, (36..100).collect::<Vec<_>>());
        assert_eq!(recent.read()[0].request, "36");
    }
}
