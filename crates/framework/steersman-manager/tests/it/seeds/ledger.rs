//! The reconciles of all replicas, and the rule that they keep.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

/// Records the reconciles of all replicas.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<watch::Sender<Entries>>);

#[derive(Default)]
struct Entries {
    /// The runs of replicas that have reconciles in flight.
    running: Vec<u64>,
    /// The run of the replica that works now.
    current: Option<u64>,
    past: BTreeSet<u64>,
    broken: Vec<String>,
}

/// One reconcile in flight. Dropping the value ends it.
pub(super) struct Reconciling(Ledger, u64);

impl Ledger {
    /// Records the begin of a reconcile.
    pub(super) fn begin(&self, run: u64) -> Reconciling {
        self.0.send_modify(|entries| {
            let others: Vec<u64> = entries
                .running
                .iter()
                .copied()
                .filter(|other| *other != run)
                .collect();
            if !others.is_empty() {
                entries.broken.push(format!(
                    "{:?}: run {run} begins while {others:?} work",
                    Instant::now()
                ));
            }
            if entries.past.contains(&run) {
                entries.broken.push(format!(
                    "{:?}: run {run} works after another one",
                    Instant::now()
                ));
            }
            if let Some(before) = entries.current.replace(run)
                && before != run
            {
                entries.past.insert(before);
            }
            entries.running.push(run);
        });
        Reconciling(self.clone(), run)
    }

    /// Waits until a run other than `run` works.
    pub(super) async fn works_other_than(&self, run: u64) {
        let mut entries = self.0.subscribe();
        let other = |entries: &Entries| entries.current.is_some_and(|current| current != run);
        entries.wait_for(other).await.unwrap();
    }

    pub(super) fn check(&self) {
        let entries = self.0.borrow();
        assert!(entries.broken.is_empty(), "{:#?}", entries.broken);
        assert!(entries.running.is_empty(), "{:?}", entries.running);
    }
}

impl Drop for Reconciling {
    fn drop(&mut self) {
        self.0.0.send_modify(|entries| {
            let place = entries.running.iter().position(|run| *run == self.1);
            entries.running.swap_remove(place.unwrap());
        });
    }
}
