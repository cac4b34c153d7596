//! Driver: counts reconciles, and tells when a controller has settled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time without a reconcile after which a controller counts as settled.
const QUIET: Duration = Duration::from_secs(1);

/// Counts reconciles, and records the end of the last.
pub(super) struct ReconcileCount {
    begun: AtomicU64,
    ended: AtomicU64,
    last: Mutex<Instant>,
}

/// A reconcile that ends when this is dropped.
pub(super) struct RunningReconcile<'a>(&'a ReconcileCount);

impl ReconcileCount {
    pub(super) fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn begin(&self) -> RunningReconcile<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        RunningReconcile(self)
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits until at least this number of reconciles have ended and no reconcile runs or follows. Returns the end of
    /// the last.
    pub(super) async fn settled(&self, least: u64) -> Instant {
        loop {
            tokio::time::sleep(QUIET / 10).await;
            let ended = self.ended();
            let is_idle = ended == self.begun.load(Ordering::SeqCst);
            let last = *self.last.lock();
            if is_idle && ended >= least && last.elapsed() >= QUIET {
                return last;
            }
        }
    }
}

impl Drop for RunningReconcile<'_> {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}
