//! Driver: removes deleted definitions and namespaces a little later than their requests are answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use steersman_registry::Registry;
use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::http::Context;

/// The time between the answer to a delete and the removal. A client that deletes and then watches has
/// started its watch by then, so that it sees the end, as on a real server.
const DELAY: Duration = Duration::from_millis(100);

/// Starts the task of the removals, one at a time.
pub(super) struct RemovalTask {
    /// Whether objects are removed later than within the request.
    is_needed: bool,
    is_running: AtomicBool,
}

impl RemovalTask {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            is_needed: !registry.removes_at_once() || registry.has_marked(),
            is_running: AtomicBool::new(false),
        }
    }

    /// Spawns the task on the current runtime. Does nothing if it runs or is not needed, or outside a
    /// runtime; the next call inside a runtime spawns it.
    pub(super) fn start(self: &Arc<Self>, context: &Arc<Context>, stop: &CancellationToken) {
        if !self.is_needed || self.is_running.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !self.is_running.swap(true, Ordering::AcqRel) {
            let guard = RemovalGuard(Arc::clone(self));
            let work = run(guard, Arc::downgrade(context));
            let stop = stop.clone();
            runtime.spawn(async move { stop.run_until_cancelled(work).await });
        }
    }
}

/// The exclusive right to remove. When the task's runtime ends, a task of another runtime may take over.
struct RemovalGuard(Arc<RemovalTask>);

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
    }
}

async fn run(guard: RemovalGuard, server: Weak<Context>) {
    let Some(mut marks) = server.upgrade().map(|server| server.subscribe_to_marks()) else {
        return;
    };
    // The first turn continues the removals of before the start.
    loop {
        sleep(DELAY).await;
        let Some(context) = server.upgrade() else {
            break;
        };
        marks.borrow_and_update();
        let now = context.now();
        context.with_registry(|registry: &mut Registry| registry.remove_marked(now));
        drop(context);
        if marks.changed().await.is_err() {
            break;
        }
    }
    drop(guard);
}
