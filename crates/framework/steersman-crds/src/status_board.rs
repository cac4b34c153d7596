//! Handle: shares the state of each definition between the loops, which write it, and readers.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::CrdMetrics;
use crate::status::{CrdPhase, CrdStatus};

#[derive(Debug)]
pub(crate) struct StatusBoard {
    statuses: watch::Sender<Vec<CrdStatus>>,
    /// The names of the definitions that the leader in this process has changed on the server.
    changed: Mutex<BTreeSet<String>>,
    /// Cancelled when the leader of this process has installed every definition.
    pub(crate) confirmed: CancellationToken,
}

impl StatusBoard {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let pending = |name: &str| CrdStatus {
            name: name.to_owned(),
            phase: CrdPhase::Pending,
            problem: None,
            migrated: 0,
        };
        let statuses = names.map(pending).collect();
        Self {
            statuses: watch::Sender::new(statuses),
            changed: Mutex::default(),
            confirmed: CancellationToken::new(),
        }
    }

    pub(crate) fn all(&self) -> Vec<CrdStatus> {
        self.statuses.borrow().clone()
    }

    /// Waits until the operator can work with each definition. Cancel safe.
    pub(crate) async fn usable(&self) {
        let mut statuses = self.statuses.subscribe();
        let are_usable = |all: &Vec<CrdStatus>| all.iter().all(|one| one.phase.is_usable());
        // The wait cannot fail, because `self` owns the sender.
        let _ = statuses.wait_for(are_usable).await;
    }

    /// Returns whether the leader in this process has changed the definition on the server.
    pub(crate) fn has_changed(&self, name: &str) -> bool {
        self.changed.lock().contains(name)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut CrdStatus)) {
        self.statuses.send_if_modified(|all| {
            let Some(status) = all.iter_mut().find(|status| status.name == name) else {
                return false;
            };
            let before = status.clone();
            change(status);
            *status != before
        });
    }
}

/// Writes the state and the metrics of one definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrdReport<'a> {
    pub(crate) name: &'a str,
    pub(crate) board: &'a StatusBoard,
    pub(crate) metrics: Option<&'a CrdMetrics>,
}

impl CrdReport<'_> {
    pub(crate) fn phase(&self) -> CrdPhase {
        let statuses = self.board.statuses.borrow();
        let found = statuses.iter().find(|status| status.name == self.name);
        found.map_or(CrdPhase::Pending, |status| status.phase)
    }

    /// Enters a phase. `problem` is the reason why the next phase is not reached.
    pub(crate) fn enter(&self, phase: CrdPhase, problem: Option<String>) {
        self.board.change(self.name, |status| {
            status.phase = phase;
            status.problem = problem;
        });
        if let Some(metrics) = self.metrics {
            let refused = metrics.refused.with_label_values(&[self.name]);
            refused.set((phase == CrdPhase::Refused).into());
        }
    }

    /// Records that the definition on the server may have changed: a lost response counts.
    pub(crate) fn note_change(&self) {
        self.board.changed.lock().insert(self.name.to_owned());
    }

    pub(crate) fn fail(&self, problem: &str) {
        self.board.change(self.name, |status| {
            status.problem = Some(problem.to_owned())
        });
        if let Some(metrics) = self.metrics {
            metrics.errors.with_label_values(&[self.name]).inc();
        }
    }

    /// Counts migrated objects. `remaining` is the number of objects left, if the server reports it.
    pub(crate) fn migrated(&self, objects: u64, remaining: Option<u64>) {
        self.board
            .change(self.name, |status| status.migrated += objects);
        if let Some(metrics) = self.metrics {
            let counter = metrics.migrated.with_label_values(&[self.name]);
            counter.inc_by(objects);
            let gauge = metrics.remaining.with_label_values(&[self.name]);
            gauge.set(
                remaining
                    .and_then(|left| i64::try_from(left).ok())
                    .unwrap_or_default(),
            );
        }
    }
}
