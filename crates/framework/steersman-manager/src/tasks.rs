//! Driver: the tasks of a manager's runnables.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use steersman_object::task_panic_text;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error};

use crate::error::{BoxError, Error};
use crate::monitor::Monitor;
use crate::order::{Group, START};
use crate::readiness::GroupReadiness;
use crate::runnable::{ErasedRunnable, RunContext};

/// The time that dropped tasks have to end.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// The tasks of a manager's runnables, by group. Dropping the value drops the tasks.
pub(crate) struct RunnableTasks {
    tasks: JoinSet<Result<(), BoxError>>,
    running: HashMap<Id, RunningTask>,
    /// One cancellation token per group. Only the supervision cancels these tokens, so it alone decides the order of a
    /// stop.
    cancels: HashMap<Group, CancellationToken>,
    /// The names of the runnables that were asked to stop and had to be dropped.
    late: Vec<String>,
    monitor: Arc<Monitor>,
    /// Tracks the workers of all controllers, which may outlive a dropped controller.
    workers: TaskTracker,
}

#[derive(Debug)]
pub(crate) struct DroppedTasks {
    pub(crate) late: Vec<String>,
    /// Whether a task still runs because it blocks its thread.
    pub(crate) left_behind: bool,
}

#[derive(Debug)]
struct RunningTask {
    name: String,
    group: Group,
    task: AbortHandle,
}

impl RunnableTasks {
    pub(crate) fn new(monitor: Arc<Monitor>, workers: TaskTracker) -> Self {
        let cancels = START.map(|group| (group, CancellationToken::new()));
        Self {
            tasks: JoinSet::new(),
            running: HashMap::new(),
            cancels: HashMap::from(cancels),
            late: Vec::new(),
            monitor,
            workers,
        }
    }

    /// Starts runnables. Returns the readiness of the runnables that report it.
    pub(crate) fn start(&mut self, runnables: Vec<ErasedRunnable>) -> GroupReadiness {
        let mut awaited = Vec::new();
        for runnable in runnables {
            let (name, group) = (runnable.name.clone(), runnable.group);
            // MGR-5: a child token, so that a runnable that cancels its token stops no other runnable.
            let cancel = self.cancels.entry(group).or_default().child_token();
            let ready = runnable.says_when_ready.then(CancellationToken::new);
            if let Some(ready) = &ready {
                awaited.push((name.clone(), ready.clone()));
            }
            let ready = ready.map(CancellationToken::drop_guard);
            let context = RunContext::new(cancel, ready, Arc::clone(&self.monitor));
            debug!(runnable = name, %group, "starting");
            self.monitor.tasks.lock().insert(name.clone(), group);
            let task = self.tasks.spawn(runnable.run(context));
            self.running
                .insert(task.id(), RunningTask { name, group, task });
        }
        GroupReadiness::new(awaited, tokio::time::Instant::now().into_std())
    }

    /// Waits until a runnable ends, and returns its error if it failed or panicked (MGR-2). Without a running runnable
    /// it never returns. Cancel safe.
    pub(crate) async fn ended(&mut self) -> Result<(), Error> {
        match self.tasks.join_next_with_id().await {
            None => pending().await,
            Some(Ok((id, result))) => self.end_of(id, Ok(result)),
            Some(Err(error)) => self.end_of(error.id(), Err(error)),
        }
    }

    pub(crate) fn ask_to_stop(&self, group: Group) {
        if let Some(cancel) = self.cancels.get(&group) {
            cancel.cancel();
        }
    }

    pub(crate) fn any_in(&self, group: Group) -> bool {
        self.running.values().any(|running| running.group == group)
    }

    /// Drops the runnables of the groups that were asked to stop, at their next await. The other groups were not asked
    /// yet, so they are not late.
    pub(crate) fn drop_late(&mut self) {
        let (cancels, late) = (&self.cancels, &mut self.late);
        self.running.retain(|_, running| {
            let asked = cancels.get(&running.group);
            let is_late = asked.is_some_and(CancellationToken::is_cancelled);
            if is_late {
                running.task.abort();
                late.push(running.name.clone());
            }
            !is_late
        });
    }

    /// Asks every runnable to stop and drops it, then waits until the runnables and the workers of controllers have
    /// ended. A task that blocks its thread cannot be dropped, and is left behind (MGR-3).
    pub(crate) async fn drop_all(mut self) -> DroppedTasks {
        self.running.clear();
        self.cancels.values().for_each(CancellationToken::cancel);
        self.workers.close();
        let ended = async {
            self.tasks.shutdown().await;
            self.workers.wait().await;
        };
        let left_behind = timeout(ABORT_GRACE, ended).await.is_err();
        if left_behind {
            error!(
                tasks = self.tasks.len() + self.workers.len(),
                "left behind tasks that block their threads and so cannot be dropped"
            );
        }
        DroppedTasks {
            late: self.late,
            left_behind,
        }
    }

    fn end_of(
        &mut self,
        id: Id,
        result: Result<Result<(), BoxError>, JoinError>,
    ) -> Result<(), Error> {
        // A dropped runnable was removed from the table before, and its end is no failure.
        let Some(RunningTask { name, group, .. }) = self.running.remove(&id) else {
            return Ok(());
        };
        self.monitor.tasks.lock().remove(&name);
        match result {
            Ok(Ok(())) => {
                debug!(runnable = name, %group, "ended");
                Ok(())
            }
            Ok(Err(source)) => Err(Error::Failed {
                name,
                group,
                source,
            }),
            Err(error) => Err(Error::Panicked {
                name,
                group,
                message: task_panic_text(error.try_into_panic()),
            }),
        }
    }
}
