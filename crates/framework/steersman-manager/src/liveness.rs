//! Machine: decides from the activity of its reflectors and workers whether the process makes progress.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use steersman_controller::WorkProgress;

/// Judges the liveness of a process (HEALTH-3). The machine stores each controller's progress, because a stall shows
/// only between two observations: keys are ready at both, and no worker has taken or finished a key in between.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    controllers: BTreeMap<String, LastProgress>,
}

/// The progress of one controller at the last observation with progress.
#[derive(Clone, Copy, Debug)]
struct LastProgress {
    taken: u64,
    finished: u64,
    since: Instant,
}

/// A stall of a controller: keys are ready, and its workers neither take nor finish any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) lasts: Duration,
    pub(crate) ready: usize,
    pub(crate) running: usize,
    pub(crate) workers: usize,
}

/// The delay after which a reflector that should be active counts as stuck.
const REFLECTOR_SLACK: Duration = Duration::from_secs(60);

/// The time for which keys may be ready while a worker is free.
const FREE_WORKER_SLACK: Duration = Duration::from_secs(60);

impl Liveness {
    /// Observes the workers of a controller; `None` if none run. Returns a stall, if there is one.
    ///
    /// If every worker reconciles, the limit is twice the longest time of a reconcile; a long reconcile without a
    /// deadline is no stall.
    pub(crate) fn handle_observation(
        &mut self,
        controller: &str,
        progress: Option<WorkProgress>,
        now: Instant,
    ) -> Option<Stall> {
        // Without ready keys, or while other controllers hold all permits, no stall can begin: the time of a later
        // stall counts from the next observation after that.
        let can_stall = |progress: &WorkProgress| progress.ready > 0 && !progress.waits_for_permit;
        let Some(progress) = progress.filter(can_stall) else {
            self.controllers.remove(controller);
            return None;
        };
        let seen = LastProgress {
            taken: progress.taken,
            finished: progress.finished,
            since: now,
        };
        let known = self.controllers.get(controller).copied();
        let is_same =
            |known: &LastProgress| (known.taken, known.finished) == (seen.taken, seen.finished);
        let Some(known) = known.filter(is_same) else {
            self.controllers.insert(controller.to_owned(), seen);
            return None;
        };
        let limit = if progress.running < progress.workers {
            FREE_WORKER_SLACK
        } else {
            progress.longest_reconcile?.saturating_mul(2)
        };
        let lasts = now.saturating_duration_since(known.since);
        (lasts > limit).then_some(Stall {
            lasts,
            ready: progress.ready,
            running: progress.running,
            workers: progress.workers,
        })
    }
}

/// Returns the delay of a reflector that should have been active by `due`; `None` unless it counts as stuck.
pub(crate) fn reflector_is_late(due: Option<Instant>, now: Instant) -> Option<Duration> {
    let late = now.saturating_duration_since(due?);
    (late > REFLECTOR_SLACK).then_some(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// One observation: seconds since the start, ready keys, running reconciles, taken keys, ended reconciles, and
    /// whether the controller is live.
    type Look = (u64, usize, usize, u64, u64, bool);

    fn check(name: &str, longest_reconcile: Option<Duration>, looks: &[Look]) {
        let start = tokio::time::Instant::now().into_std();
        let mut liveness = Liveness::default();
        for &(at, ready, running, taken, finished, is_live) in looks {
            let mut progress = WorkProgress::default();
            progress.workers = 2;
            progress.ready = ready;
            progress.running = running;
            progress.taken = taken;
            progress.finished = finished;
            progress.longest_reconcile = longest_reconcile;
            let now = start + Duration::from_secs(at);
            let stall = liveness.handle_observation("shop", Some(progress), now);
            assert_eq!(stall.is_none(), is_live, "{name} at {at} s");
        }
    }

    /// HEALTH-3
    #[test]
    fn workers_that_take_and_finish_nothing_are_stalled_after_their_time() {
        // The columns are ready, running, taken, finished; the controller has two workers.
        check(
            "an idle queue",
            None,
            &[(0, 0, 0, 5, 5, true), (9999, 0, 0, 5, 5, true)],
        );
        check(
            "keys that have just become ready",
            None,
            &[(0, 0, 0, 5, 5, true), (9999, 3, 0, 5, 5, true)],
        );
        check(
            "a free worker that takes no key",
            None,
            &[
                (0, 3, 1, 5, 4, true),
                (60, 3, 1, 5, 4, true),
                (61, 3, 1, 5, 4, false),
            ],
        );
        check(
            "a free worker that took a key meanwhile",
            None,
            &[
                (0, 3, 1, 5, 4, true),
                (61, 3, 1, 6, 5, true),
                (121, 3, 1, 6, 5, true),
            ],
        );
        check(
            "a long reconcile without a deadline",
            None,
            &[(0, 3, 2, 5, 3, true), (86400, 3, 2, 5, 3, true)],
        );
        check(
            "reconciles beyond twice their deadline",
            Some(30 * S),
            &[
                (0, 3, 2, 5, 3, true),
                (60, 3, 2, 5, 3, true),
                (61, 3, 2, 5, 3, false),
            ],
        );
        check(
            "a reconcile that finished in time",
            Some(30 * S),
            &[
                (0, 3, 2, 5, 3, true),
                (50, 3, 2, 5, 4, true),
                (110, 3, 2, 5, 4, true),
            ],
        );
        check(
            "a stall that ends",
            Some(30 * S),
            &[
                (0, 3, 2, 5, 3, true),
                (99, 3, 2, 5, 3, false),
                (100, 3, 2, 6, 4, true),
            ],
        );
        check(
            "the longest deadline",
            Some(Duration::MAX),
            &[(0, 3, 2, 5, 3, true), (86400, 3, 2, 5, 3, true)],
        );
    }

    /// HEALTH-3
    #[test]
    fn a_controller_without_workers_is_live() {
        let now = tokio::time::Instant::now().into_std();
        let mut liveness = Liveness::default();
        let mut progress = WorkProgress::default();
        progress.workers = 1;
        progress.ready = 1;
        assert_eq!(
            liveness.handle_observation("shop", Some(progress), now),
            None
        );
        // A standby, or a controller that waits for its kinds, starts later.
        assert_eq!(
            liveness.handle_observation("shop", None, now + 99 * S),
            None
        );
        assert_eq!(
            liveness.handle_observation("shop", Some(progress), now + 100 * S),
            None
        );
        assert!(
            liveness
                .handle_observation("shop", Some(progress), now + 161 * S)
                .is_some()
        );
    }

    /// HEALTH-3
    #[test]
    fn workers_that_wait_for_a_permit_are_live() {
        let now = tokio::time::Instant::now().into_std();
        let mut liveness = Liveness::default();
        let mut progress = WorkProgress::default();
        progress.workers = 1;
        progress.ready = 1;
        progress.waits_for_permit = true;
        for seconds in [0, 3600, 7200] {
            let now = now + Duration::from_secs(seconds);
            assert_eq!(
                liveness.handle_observation("shop", Some(progress), now),
                None
            );
        }
    }

    /// HEALTH-3
    #[test]
    fn a_reflector_is_stuck_a_minute_after_its_next_activity_was_due() {
        let now = tokio::time::Instant::now().into_std();
        let table = [
            (None, None),
            (Some(now + 600 * S), None),
            (Some(now), None),
            (Some(now - 60 * S), None),
            (Some(now - 61 * S), Some(61 * S)),
        ];
        for (due, late) in table {
            assert_eq!(reflector_is_late(due, now), late);
        }
    }
}
