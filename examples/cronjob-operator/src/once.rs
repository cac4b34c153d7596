//! Driver: waits until each `CronJob` has completed a number of Jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steersman::futures::StreamExt as _;
use steersman::futures::stream::{self, BoxStream};
use steersman::informer::{Delivery, Subscription};
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::{CancellationToken, ListOptions, Manager, ObjectKey, cache, object::Object as _};
use thiserror::Error;

use crate::BoxError;
use crate::cron_job::CronJob;
use crate::job::{self, JobState};

/// The time limit for each Job, by the clock of the runtime.
const PATIENCE: Duration = Duration::from_secs(180);

/// The reason why the wait ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotCompleted {
    /// There is no `CronJob`.
    #[error("there is no CronJob: create one, or run again with --sample")]
    NoCronJob,
    /// No Job completed for a while.
    #[error("no Job completed for {} s: {}", PATIENCE.as_secs(), .0.join("; "))]
    TooLong(Vec<String>),
    /// The manager stopped during the wait.
    #[error("the watch of Jobs ended")]
    Ended,
    /// A kind cannot be read.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

/// Starts the manager, and stops it once each `CronJob` has completed `count` Jobs.
///
/// # Errors
///
/// Why not every Job completed, or else the error of the manager.
pub async fn run(manager: &Manager, count: usize) -> Result<(), BoxError> {
    let stop = CancellationToken::new();
    let done = stop.clone().drop_guard();
    let informers = manager.cache().informers::<Job>()?;
    let jobs = stream::select_all(
        informers
            .iter()
            .map(|informer| deliveries(informer.subscribe())),
    );
    let watching = manager.clone();
    let running = manager.start(stop);
    let outcome = tokio::spawn(async move {
        let _done = done;
        until_completed(&watching, jobs.boxed(), count).await
    });
    let stopped = running.await;
    if stopped.is_err() && !outcome.is_finished() {
        // The manager did not start, or ended by itself: there is nothing to wait for.
        outcome.abort();
        return Ok(stopped?);
    }
    // The reason of the stop comes before errors of the stop.
    outcome.await??;
    Ok(stopped?)
}

/// Counts the Jobs of each `CronJob` that complete.
async fn until_completed(
    manager: &Manager,
    mut jobs: BoxStream<'static, Delivery<Job>>,
    count: usize,
) -> Result<(), NotCompleted> {
    let crons = manager.cache().list::<CronJob>(&ListOptions::new()).await?;
    let keys = crons
        .iter()
        .map(|cron| (cron.uid_str().to_owned(), BTreeSet::new()));
    let mut completed: BTreeMap<String, BTreeSet<ObjectKey>> = keys.collect();
    if completed.is_empty() {
        return Err(NotCompleted::NoCronJob);
    }
    while completed.values().any(|jobs| jobs.len() < count) {
        let Ok(delivery) = tokio::time::timeout(PATIENCE, jobs.next()).await else {
            return Err(NotCompleted::TooLong(states(manager).await?));
        };
        let event = match delivery {
            None => return Err(NotCompleted::Ended),
            Some(Delivery::Event(event)) => event,
            Some(_) => continue,
        };
        let job = event.entry().object();
        let owner = steersman::owner::controller_of(&job.metadata);
        if let Some(jobs) = owner.and_then(|owner| completed.get_mut(&owner.uid))
            && job::state(&job) == JobState::Complete
        {
            jobs.insert(job.key());
        }
    }
    Ok(())
}

/// Returns the conditions of all CronJobs.
async fn states(manager: &Manager) -> Result<Vec<String>, cache::Error> {
    let crons = manager.cache().list::<CronJob>(&ListOptions::new()).await?;
    let says = crons.iter().map(|cron| match cron.ready_condition() {
        Some(condition) => format!("CronJob {}: {}", cron.key(), condition.message),
        None => format!("CronJob {}: no status was written", cron.key()),
    });
    Ok(says.collect())
}

/// Returns the events of one informer as a stream.
fn deliveries(events: Subscription<Job>) -> BoxStream<'static, Delivery<Job>> {
    let next = |mut events: Subscription<Job>| async move { Some((events.next().await?, events)) };
    stream::unfold(events, next).boxed()
}
