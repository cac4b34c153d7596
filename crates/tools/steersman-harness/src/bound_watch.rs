//! Driver: notices when more reconciles have ended than a test permits, even if the operator never pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Notify;

use crate::progress::ControllerProgress;

/// The interval between two reads of the metrics, in real time.
const INTERVAL: Duration = Duration::from_millis(5);

/// Watches the number of reconciles from a separate thread.
///
/// A paused clock only advances while all tasks wait. An operator that triggers itself never waits, so no timer of its
/// runtime fires, and a wait with a timer would not end.
#[derive(Debug)]
#[must_use = "the watch ends when it is dropped"]
pub(crate) struct BoundWatch {
    exceeded: Arc<Notify>,
    is_over: Arc<AtomicBool>,
}

impl BoundWatch {
    /// Starts to watch. `last` is the largest permitted number of reconciles in the registry.
    pub(crate) fn start(registry: &Registry, last: u64) -> Self {
        let watch = Self {
            exceeded: Arc::new(Notify::new()),
            is_over: Arc::new(AtomicBool::new(false)),
        };
        let (exceeded, is_over) = (Arc::clone(&watch.exceeded), Arc::clone(&watch.is_over));
        let registry = registry.clone();
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if ControllerProgress::of(&registry).reconciles > last {
                    exceeded.notify_one();
                    return;
                }
                // The thread may wake up early, which costs one more read.
                std::thread::park_timeout(INTERVAL);
            }
        });
        watch
    }

    pub(crate) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }
}

impl Drop for BoundWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
