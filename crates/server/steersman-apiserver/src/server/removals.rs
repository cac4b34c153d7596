//! Driver: removes CRDs and namespaces that are marked as deleted, a tenth of a second after the delete was answered.

use std::sync::Weak;
use std::time::Duration;

use steersman_registry::Registry;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::http::Context;

/// The time between the answer to a delete and the removal. A client that deletes an object and then watches it has
/// started its watch by then, so it receives the event of the removal, as from a real server.
const DELAY: Duration = Duration::from_millis(100);

/// Removes CRDs and namespaces that are marked as deleted, until the server stops or is dropped.
pub(super) async fn run(server: Weak<Context>, stop: CancellationToken) {
    stop.run_until_cancelled(remove(server)).await;
}

async fn remove(server: Weak<Context>) {
    let Some(mut marks) = server.upgrade().map(|server| server.marks.subscribe()) else {
        return;
    };
    // The first pass does not wait for a change: a restored state may have CRDs and namespaces that are marked as
    // deleted.
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
}
