//! Driver: notices when more reconciles have ended than a test permits, even if the operator never pauses.

use std::time::Duration;

use prometheus::Registry;
use tokio_util::sync::{CancellationToken, DropGuard};

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
    exceeded: CancellationToken,
    _watching: DropGuard,
}

impl BoundWatch {
    /// Starts to watch. `last` is the largest permitted number of reconciles in the registry.
    pub(crate) fn start(registry: &Registry, last: u64) -> Self {
        let (exceeded, over) = (CancellationToken::new(), CancellationToken::new());
        let watch = Self {
            exceeded: exceeded.clone(),
            _watching: over.clone().drop_guard(),
        };
        let registry = registry.clone();
        std::thread::spawn(move || {
            while !over.is_cancelled() {
                if ControllerProgress::of(&registry).reconciles > last {
                    return exceeded.cancel();
                }
                // The thread may wake up early, which costs one more read.
                std::thread::park_timeout(INTERVAL);
            }
        });
        watch
    }

    pub(crate) async fn exceeded(&self) {
        self.exceeded.cancelled().await;
    }
}
