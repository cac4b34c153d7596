//! Driver: starts, supervises and stops runnables, group by group.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use crate::error::{BoxError, Error};
use crate::order::{Group, START};
use crate::runnable::{Erased, Ready, RunContext};

/// Everything that runs, by group. Dropping it drops what runs.
#[derive(Debug)]
pub(crate) struct Groups {
    tasks: JoinSet<Result<(), BoxError>>,
    names: HashMap<Id, (String, Group)>,
    cancels: HashMap<Group, CancellationToken>,
}

/// Resolves when everything that was started with it is ready.
#[derive(Debug)]
pub(crate) struct Readiness(mpsc::Receiver<Infallible>);

impl Readiness {
    /// Cancel safe.
    pub(crate) async fn reached(&mut self) {
        // Nothing can be sent; the channel ends when the last guard is dropped.
        while self.0.recv().await.is_some() {}
    }
}

impl Groups {
    /// Tokens that nobody cancels from outside, so that the stop order is ours alone.
    pub(crate) fn new() -> Self {
        let cancels = START
            .into_iter()
            .map(|group| (group, CancellationToken::new()))
            .collect();
        Self {
            tasks: JoinSet::new(),
            names: HashMap::new(),
            cancels,
        }
    }

    /// Starts the runnables; the answer says when all of them are ready.
    pub(crate) fn start(&mut self, runnables: Vec<Erased>) -> Readiness {
        let (guard, readiness) = mpsc::channel(1);
        for runnable in runnables {
            let (name, group) = (runnable.name.clone(), runnable.group);
            let cancel = self.cancels.entry(group).or_default().clone();
            let context = RunContext::new(
                cancel,
                Ready {
                    guard: guard.clone(),
                },
            );
            debug!(runnable = name, %group, "starting");
            let task = self.tasks.spawn(runnable.run(context));
            self.names.insert(task.id(), (name, group));
        }
        Readiness(readiness)
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
        while self.names.values().any(|(_, g)| *g == group) {
            if let Err(failure) = self.ended().await {
                let cause = std::error::Error::source(&failure).map(ToString::to_string);
                error!(error = %failure, cause, "failed while stopping");
            }
        }
        info!(%group, "stopped");
    }

    /// Drops what still runs, at its next await, and names what did not stop though it was asked to. What
    /// waited for its turn to be asked is not to blame.
    pub(crate) async fn abort(&mut self) -> Vec<String> {
        let asked = |group| self.cancels.get(group).is_some_and(|c| c.is_cancelled());
        let mut late: Vec<String> = self
            .names
            .values()
            .filter(|(_, group)| asked(group))
            .map(|(name, _)| name.clone())
            .collect();
        late.sort();
        self.names.clear();
        self.tasks.shutdown().await;
        late
    }

    fn account(
        &mut self,
        id: Id,
        outcome: Result<Result<(), BoxError>, JoinError>,
    ) -> Result<(), Error> {
        let Some((name, group)) = self.names.remove(&id) else {
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
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}

fn panic_message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "a panic without a text".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}
