//! Driver: removes deleted definitions a little later than their requests are answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use steersman_registry::Registry;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::context::Context;

/// The time between the answer to a delete and the removal of the definition. A client that deletes
/// and then watches has started its watch by then, so that it sees the end, as on a real server.
const DELAY: Duration = Duration::from_millis(100);

/// Starts the removal when a request ends, even if its client has disconnected.
pub(super) struct DefinitionRemoval<'a> {
    context: &'a Arc<Context>,
    /// Whether the last run of the verb left definitions to remove.
    is_due: AtomicBool,
}

impl<'a> DefinitionRemoval<'a> {
    pub(super) fn of(context: &'a Arc<Context>) -> Self {
        Self {
            context,
            is_due: AtomicBool::new(false),
        }
    }

    /// Notes the outcome of a run of the verb, under the lock that the run has. A read leaves nothing to remove.
    pub(super) fn note(&self, registry: &Registry, reads: bool) {
        let is_due = !reads && registry.removes_definitions();
        self.is_due.store(is_due, Ordering::Relaxed);
    }
}

impl Drop for DefinitionRemoval<'_> {
    fn drop(&mut self) {
        if self.is_due.load(Ordering::Relaxed) {
            start(self.context);
        }
    }
}

/// Spawns the removal of the definitions that are marked as deleted, if there are any. Does nothing outside
/// a runtime.
pub(crate) fn start(context: &Arc<Context>) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    if context.with_registry(|registry| registry.removes_definitions()) {
        runtime.spawn(remove(Arc::downgrade(context)));
    }
}

async fn remove(server: Weak<Context>) {
    sleep(DELAY).await;
    if let Some(context) = server.upgrade() {
        let now = context.now();
        context.with_registry(|registry: &mut Registry| registry.remove_definitions(now));
    }
}
