//! Driver: starts, supervises and stops runnables, group by group.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use steersman_controller::ControllerError;
use steersman_object::panic_text;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::error::{BoxError, Error};
use crate::monitor::Monitor;
use crate::order::{Group, START};
use crate::runnable::{Erased, RunContext};

/// When the log first names what a group waits for, and how long after that again; each pause is twice
/// the one before.
const FIRST_REMINDER: Duration = Duration::from_secs(10);

/// The longest pause between two reminders.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// How long what was dropped may take to be gone.
const DROPPED: Duration = Duration::from_secs(1);

/// Everything that runs, by group. Dropping it drops what runs.
pub(crate) struct Groups {
    tasks: JoinSet<Result<(), BoxError>>,
    running: HashMap<Id, Running>,
    cancels: HashMap<Group, CancellationToken>,
    /// What did not stop though it was asked to, and was dropped.
    late: Vec<String>,
    monitor: Arc<Monitor>,
}

#[derive(Debug)]
struct Running {
    name: String,
    group: Group,
    task: AbortHandle,
}

/// The runnables of a group that promised to say when they are ready; each token is cancelled when its
/// runnable is.
#[derive(Debug)]
pub(crate) struct Readiness {
    awaited: Vec<(String, CancellationToken)>,
    /// When the log names them next, and the pause before that.
    reminder: Instant,
    pause: Duration,
}

impl Readiness {
    fn new(awaited: Vec<(String, CancellationToken)>) -> Self {
        Self {
            awaited,
            reminder: Instant::now() + FIRST_REMINDER,
            pause: FIRST_REMINDER,
        }
    }

    /// Waits until all of them are ready, and says meanwhile which are not: once as a warning, then ever
    /// more rarely below that, because a standby may wait for weeks (MGR-4).
    ///
    /// Cancel safe.
    pub(crate) async fn reached(&mut self) {
        for (_, ready) in &self.awaited {
            loop {
                tokio::select! {
                    biased;
                    () = ready.cancelled() => break,
                    () = sleep_until(self.reminder) => {
                        remind(&self.awaited, self.pause == FIRST_REMINDER);
                        self.pause = LONGEST_PAUSE.min(self.pause * 2);
                        self.reminder += self.pause;
                    }
                }
            }
        }
    }
}

fn remind(awaited: &[(String, CancellationToken)], first: bool) {
    let waiting = awaited.iter().filter(|(_, ready)| !ready.is_cancelled());
    let names: Vec<&str> = waiting.map(|(name, _)| name.as_str()).collect();
    let waiting_for = names.join(", ");
    if first {
        warn!(
            waiting_for,
            "the groups to come wait until it is ready; said again ever more rarely, as INFO"
        );
    } else {
        info!(waiting_for, "the groups to come wait until it is ready");
    }
}

impl Groups {
    /// Tokens that nobody cancels from outside, so that the stop order is ours alone.
    pub(crate) fn new(monitor: Arc<Monitor>) -> Self {
        let cancels = START
            .into_iter()
            .map(|group| (group, CancellationToken::new()))
            .collect();
        Self {
            tasks: JoinSet::new(),
            running: HashMap::new(),
            cancels,
            late: Vec::new(),
            monitor,
        }
    }

    /// Starts the runnables; the answer says when those who promised to say so are ready.
    pub(crate) fn start(&mut self, runnables: Vec<Erased>) -> Readiness {
        let mut readiness = Vec::new();
        for runnable in runnables {
            let (name, group) = (runnable.name.clone(), runnable.group);
            // MGR-5: one of its own, so that a runnable that cancels it stops nothing but itself.
            let cancel = self.cancels.entry(group).or_default().child_token();
            let ready = runnable.says_when_ready.then(CancellationToken::new);
            if let Some(ready) = &ready {
                readiness.push((name.clone(), ready.clone()));
            }
            let ready = ready.map(CancellationToken::drop_guard);
            let context = RunContext::new(cancel, ready, Arc::clone(&self.monitor));
            debug!(runnable = name, %group, "starting");
            let task = self.tasks.spawn(runnable.run(context));
            self.running
                .insert(task.id(), Running { name, group, task });
        }
        Readiness::new(readiness)
    }

    /// Waits until something ends, and says whether it ended the manager (MGR-2). Never resolves while
    /// nothing runs.
    ///
    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> Result<(), Error> {
        match self.tasks.join_next_with_id().await {
            None => pending().await,
            Some(Ok((id, outcome))) => self.account(id, Ok(outcome)),
            Some(Err(error)) => self.account(error.id(), Err(error)),
        }
    }

    /// Asks one group to stop, and waits until all of it has.
    ///
    /// What ends meanwhile in other groups is accounted for too: nobody waits to be heard. Errors of
    /// this phase are logged.
    pub(crate) async fn stop(&mut self, group: Group) {
        if let Some(cancel) = self.cancels.get(&group) {
            cancel.cancel();
        }
        while self.running.values().any(|running| running.group == group) {
            if let Err(failure) = self.ended().await {
                self.late.extend(dropped_requests(&failure));
                let cause = std::error::Error::source(&failure).map(ToString::to_string);
                error!(error = %failure, cause, "failed while stopping");
            }
        }
        info!(%group, "stopped");
    }

    /// Drops what did not stop though it was asked to, at its next await. What waited for its turn to be
    /// asked is not to blame.
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

    /// Drops all that still runs. What blocks its thread cannot be dropped, and is left behind (MGR-3).
    pub(crate) async fn abort(&mut self) {
        self.running.clear();
        if timeout(DROPPED, self.tasks.shutdown()).await.is_err() {
            error!(
                tasks = self.tasks.len(),
                "left behind what blocks its thread and so cannot be dropped"
            );
        }
    }

    /// The names of what was dropped though it was asked to stop, in order.
    pub(crate) fn take_late(&mut self) -> Vec<String> {
        self.late.sort();
        std::mem::take(&mut self.late)
    }

    fn account(
        &mut self,
        id: Id,
        outcome: Result<Result<(), BoxError>, JoinError>,
    ) -> Result<(), Error> {
        let Some(Running { name, group, .. }) = self.running.remove(&id) else {
            return Ok(());
        };
        match outcome {
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
                message: panic_message(error),
            }),
        }
    }
}

/// A deadline that may be absent.
pub(crate) async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// A controller that ended over its running reconciles says which.
fn dropped_requests(failure: &Error) -> Option<String> {
    let Error::Failed { name, source, .. } = failure else {
        return None;
    };
    match source.downcast_ref() {
        Some(ControllerError::StillRunning { requests, .. }) => {
            Some(format!("{name} ({})", requests.join(", ")))
        }
        _ => None,
    }
}

fn panic_message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => panic_text(&*panic).to_owned(),
        Err(error) => error.to_string(),
    }
}
