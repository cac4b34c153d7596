//! Handle: the last reconciles of one controller.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::clock::now;

use crate::journal::recent::{RecentReconcile, ReconcileResult};
use crate::journal::{ErrorGroup, ReconcileRate};
use crate::request::RequestKey;
use crate::worker::kept::Kept;
use crate::worker::reconcile_groups::{Failure, KeptErrors, ReconcileGroups, message_of};

/// The records of the last reconciles of one controller. Cheap to clone; all clones share the records.
#[derive(Clone)]
pub(crate) struct RecentReconciles<R> {
    kept: Arc<Mutex<KeptReconciles<R>>>,
    has_page: bool,
}

struct KeptReconciles<R> {
    /// The oldest first.
    reconciles: VecDeque<Kept<R>>,
    /// The number of their steps.
    steps: usize,
    /// Kept for a debug page only.
    groups: Option<ReconcileGroups<R>>,
}

/// The largest number of steps that are kept of all reconciles: the oldest reconciles lose theirs.
const MOST_STEPS: usize = 4096;

/// The largest number of recent reconciles that are kept, to bound their memory; with and without a debug page.
const MOST: usize = 64;
const MOST_FOR_PAGE: usize = 1024;

impl<R: RequestKey> RecentReconciles<R> {
    pub(crate) fn new(has_page: bool) -> Self {
        Self {
            kept: Arc::new(Mutex::new(KeptReconciles {
                reconciles: VecDeque::with_capacity(MOST),
                steps: 0,
                groups: has_page.then(|| ReconcileGroups::new(now())),
            })),
            has_page,
        }
    }

    pub(crate) fn keep(&self, mut reconcile: Kept<R>) {
        let mut failure = None;
        if self.has_page {
            reconcile.shorten();
            let request = || format!("{:?}", reconcile.request);
            failure = Failure::of(&reconcile.result, request);
        }
        let mut kept = self.kept.lock();
        let groups = kept.groups.as_mut();
        let dropped = groups.map(|groups| groups.note(&reconcile, failure));
        let most = if self.has_page { MOST_FOR_PAGE } else { MOST };
        let oldest = kept.push(reconcile, most);
        drop(kept);
        // These are dropped outside the lock, because dropping a request may run code of the program.
        drop((dropped, oldest));
    }

    /// Returns the kept reconciles in readable form, oldest first.
    pub(crate) fn read(&self) -> Vec<RecentReconcile> {
        let mut newest = self.newest(usize::MAX, |_| true);
        newest.reverse();
        newest
    }

    /// Returns the last `most` reconciles of wanted requests in readable form, newest first.
    pub(crate) fn newest(&self, most: usize, wanted: impl Fn(&R) -> bool) -> Vec<RecentReconcile> {
        let kept = self.kept.lock();
        let newest = kept.reconciles.iter().rev();
        let newest = newest.filter(|one| wanted(&one.request)).take(most);
        let newest: Vec<Kept<R>> = newest.cloned().collect();
        drop(kept);
        // Requests are formatted outside the lock, because the formatting may panic.
        newest.into_iter().map(Kept::shown).collect()
    }

    /// Returns the slowest reconciles of the last hour, the slowest first.
    pub(crate) fn slowest(&self) -> Vec<RecentReconcile> {
        let slowest = self.grouped(|groups| groups.slowest(now()));
        slowest.into_iter().flatten().map(Kept::shown).collect()
    }

    /// Returns the failures by message, the last one first.
    pub(crate) fn errors(&self) -> Vec<ErrorGroup> {
        let errors = self.grouped(ReconcileGroups::errors);
        errors
            .into_iter()
            .flatten()
            .map(KeptErrors::shown)
            .collect()
    }

    /// Returns the message of the last failure of each of these requests, which are texts.
    pub(crate) fn last_failures(&self, requests: &[String]) -> Vec<Option<String>> {
        let mut found = vec![None; requests.len()];
        let mut note = |request: &str, message: String| {
            let at = requests.iter().position(|one| one == request);
            if let Some(slot) = at
                .and_then(|at| found.get_mut(at))
                .filter(|slot| slot.is_none())
            {
                *slot = Some(message);
            }
        };
        for group in self.errors() {
            for (request, message) in group.requests.iter().zip(group.messages) {
                note(request, message);
            }
        }
        let kept = self.kept.lock();
        let failed = kept.reconciles.iter().rev();
        let failed = failed.filter(|one| !matches!(one.result, ReconcileResult::Success));
        let failed: Vec<_> = failed
            .map(|one| (one.request.clone(), one.result.clone()))
            .collect();
        drop(kept);
        // The requests are formatted outside the lock, because the formatting may panic.
        for (request, result) in failed {
            note(&format!("{request:?}"), message_of(&result));
        }
        found
    }

    pub(crate) fn rate(&self) -> ReconcileRate {
        self.grouped(|groups| groups.rate(now()))
            .unwrap_or_default()
    }

    fn grouped<T>(&self, read: impl FnOnce(&ReconcileGroups<R>) -> T) -> Option<T> {
        self.kept.lock().groups.as_ref().map(read)
    }
}

impl<R> KeptReconciles<R> {
    /// Adds a reconcile. Returns the one that made room.
    fn push(&mut self, reconcile: Kept<R>, most: usize) -> Option<Kept<R>> {
        let is_full = self.reconciles.len() >= most;
        let oldest = is_full.then(|| self.reconciles.pop_front()).flatten();
        if let Some(oldest) = &oldest {
            self.steps -= oldest.steps.first.len();
        }
        self.steps += reconcile.steps.first.len();
        self.reconciles.push_back(reconcile);
        let mut with_steps = self.reconciles.iter_mut();
        while self.steps > MOST_STEPS
            && let Some(oldest) = with_steps.find(|one| !one.steps.first.is_empty())
        {
            self.steps -= oldest.steps.first.len();
            oldest.steps.more += oldest.steps.first.len();
            oldest.steps.first = Vec::new();
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_client::WaitCause;
    use steersman_object::Kind;

    use super::*;
    use crate::context::event_journal::KeptSteps;
    use crate::context::reason::RunReason;
    use crate::journal::{ReconcileStep, StepAction};

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

    #[test]
    fn the_steps_of_all_reconciles_are_bounded_and_the_oldest_lose_theirs() {
        let recent = RecentReconciles::new(true);
        let step = || ReconcileStep {
            began: now(),
            took: Duration::ZERO,
            is_open: false,
            action: StepAction::Wait(WaitCause::LiveRead),
            cluster: None,
            kind: Kind::of::<ConfigMap>(),
            key: None,
        };
        let many = MOST_STEPS / 64 + 2;
        for id in 0..many as u64 {
            recent.keep(Kept {
                id,
                request: id,
                reason: RunReason::default(),
                attempt: 0,
                result: ReconcileResult::Failed("x".repeat(9_999)),
                time: Duration::ZERO,
                ended: now(),
                next_in: None,
                steps: KeptSteps {
                    first: (0..64).map(|_| step()).collect(),
                    more: 1,
                },
            });
        }
        let read = recent.read();
        let steps: Vec<usize> = read.iter().map(|one| one.steps.len()).collect();
        assert_eq!((steps[0], steps[1], steps[2]), (0, 0, 64));
        assert_eq!((read[0].more_steps, read[2].more_steps), (65, 1));
        let ReconcileResult::Failed(message) = &read[0].result else {
            panic!("{:?}", read[0].result);
        };
        assert!(message.len() < 1_100, "{}", message.len());
        assert_eq!(recent.newest(1, |id| *id == 3)[0].id, 3);
    }
}
