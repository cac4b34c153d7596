//! Driver: notices when more reconciles have ended than a test permits, even if the operator never pauses.

use std::time::Duration;

use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::progress::ControllerProgress;

/// The interval between two reads of the metrics, in real time.
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until more than `last` reconciles have ended in the registry. Cancel safe.
///
/// A separate thread reads the metrics. A paused clock only advances while all tasks wait. An operator that triggers
/// itself never waits, so no timer of its runtime fires, and a wait with a timer would not end.
pub(crate) async fn exceeded(registry: Registry, last: u64) {
    let (exceeded, dropped) = (CancellationToken::new(), CancellationToken::new());
    let _ends_thread = dropped.clone().drop_guard();
    let seen = exceeded.clone();
    std::thread::spawn(move || {
        while !dropped.is_cancelled() {
            if ControllerProgress::of(&registry).reconciles > last {
                return seen.cancel();
            }
            // The thread may wake up early, which costs one more read.
            std::thread::park_timeout(INTERVAL);
        }
    });
    exceeded.cancelled().await;
}
