//! Driver: the task that runs the storage version migrator, with one write each time it locks the registry.

use std::sync::Weak;
use std::time::Duration;

use steersman_apimachinery::status::Status;
use steersman_registry::{MigrationStep, MigratorTime, MigratorWork, StorageMigrator};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::http::Context;

/// The number of writes after which the task yields to other tasks (SRV-SVM-2).
const WRITES_PER_TURN: usize = 16;

pub(super) async fn run(server: Weak<Context>, stop: CancellationToken) {
    let Some(mut changed) = server.upgrade().map(|server| server.any_change.subscribe()) else {
        return;
    };
    let (mut migrator, started) = (StorageMigrator::default(), Instant::now());
    while !stop.is_cancelled() {
        changed.borrow_and_update();
        let Some(context) = server.upgrade() else {
            break;
        };
        let due = tokio::select! {
            () = stop.cancelled() => break,
            due = turn(&context, &mut migrator, started) => due,
        };
        drop(context);
        let wait = async {
            match due.and_then(|due| started.checked_add(due)) {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            // An error says that no sender is left: the server was dropped.
            seen = changed.changed() => if seen.is_err() { break },
            () = wait => {}
        }
    }
}

/// Migrates objects until no work is left. Returns the time since `started` at which to continue; `None` if only a
/// change of the store can make new work.
async fn turn(
    context: &Context,
    migrator: &mut StorageMigrator,
    started: Instant,
) -> Option<Duration> {
    let mut done: Option<(MigrationStep, Result<(), Status>)> = None;
    let mut writes = 0;
    loop {
        let now = MigratorTime {
            wall: context.now(),
            tick: started.elapsed(),
        };
        let last = done.take();
        let work = context.with_registry(|registry| migrator.next_work(registry, last, now));
        match work {
            MigratorWork::Store(step) => {
                let (outcome, _) = context
                    .asking(|registry| registry.store_anew(&step, now.wall))
                    .await;
                done = Some((step, outcome));
            }
            MigratorWork::WaitUntil(due) => return Some(due),
            MigratorWork::Wait => return None,
        }
        writes += 1;
        if writes % WRITES_PER_TURN == 0 {
            tokio::task::yield_now().await;
            context.caught_up().await;
        }
    }
}
