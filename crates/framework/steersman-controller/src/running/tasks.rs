//! Driver: the tasks of one controller: the tasks of sources fill its queue, and the workers empty the queue.

use std::future::pending;
use std::time::Duration;

use futures::future::BoxFuture;
use steersman_object::task_panic_text;
use steersman_workqueue::Queue;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::lifecycle::TaskEnd;
use crate::request::RequestKey;
use crate::watch::PumpEnd;

/// How long to wait for the end of aborted workers. The wait is limited, because a reconcile that blocks its thread
/// does not end.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// The tasks of one controller. Dropping the value aborts the tasks, so that no task outlives the controller.
#[derive(Default)]
pub(crate) struct ControllerTasks {
    pumps: JoinSet<PumpEnd>,
    workers: JoinSet<()>,
}

impl ControllerTasks {
    /// Spawns a task that fills the queue. The function takes a boxed future and is not generic: otherwise each
    /// operator would compile tokio's tasks once more for each type of its requests and kinds.
    pub(crate) fn spawn_pump(&mut self, run: BoxFuture<'static, PumpEnd>) {
        self.pumps.spawn(run);
    }

    pub(crate) fn spawn_worker(&mut self, run: BoxFuture<'static, ()>) {
        self.workers.spawn(run);
    }

    /// Waits until the next task of a source, or the next worker, ends. Returns how the task ended. Cancel safe.
    pub(crate) async fn ended(&mut self) -> TaskEnd {
        tokio::select! {
            biased;
            Some(end) = self.pumps.join_next(), if !self.pumps.is_empty() => match end {
                Ok(end) => TaskEnd::Pump(end),
                Err(error) => panicked("watch", error),
            },
            Some(end) = self.workers.join_next(), if !self.workers.is_empty() => match end {
                Ok(()) => TaskEnd::Worker,
                Err(error) => panicked("worker", error),
            },
            else => pending().await,
        }
    }

    pub(crate) fn abort_pumps(&mut self) {
        self.pumps.abort_all();
    }

    /// Waits until every worker has ended. Cancel safe.
    pub(crate) async fn workers_ended(&mut self) {
        while self.workers.join_next().await.is_some() {}
    }

    /// Aborts the workers, and returns the requests that they were reconciling, sorted by their text.
    pub(crate) async fn abort_workers<R: RequestKey>(&mut self, queue: &Queue<R>) -> Vec<String> {
        // The requests are read before the abort, because the queue forgets the requests of aborted workers.
        let held = queue.held();
        let mut requests: Vec<String> = held.iter().map(|request| format!("{request:?}")).collect();
        requests.sort();
        self.workers.abort_all();
        let _ = timeout(ABORT_GRACE, self.workers_ended()).await;
        requests
    }
}

fn panicked(task: &'static str, error: JoinError) -> TaskEnd {
    TaskEnd::Panicked {
        task,
        message: task_panic_text(error.try_into_panic()),
    }
}
