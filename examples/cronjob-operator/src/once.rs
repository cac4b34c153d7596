//! Driver: waits until each `CronJob` has completed a number of Jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use example_program::BoxError;
use example_program::once::deliveries;
use steersman::futures::StreamExt as _;
use steersman::informer::Delivery;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::object::Object as _;
use steersman::status_conditions::{HasConditions as _, READY, find};
use steersman::{ListOptions, Manager, ObjectKey, owner};

use crate::cron_job::CronJob;
use crate::job::{self, JobState};

/// The time limit for each Job, by the clock of the runtime.
const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until each `CronJob` has completed `count` Jobs.
///
/// # Errors
///
/// An error if there is no `CronJob`, or no Job completed for three minutes.
///
/// # Cancel safety
///
/// Cancel safe: the wait only reads.
pub async fn until_completed(manager: &Manager, count: usize) -> Result<(), BoxError> {
    let cache = manager.cache();
    let mut jobs = deliveries(&cache.informers::<Job>()?);
    let crons = cache.list::<CronJob>(&ListOptions::new()).await?;
    let uids = crons.iter().map(|cron| cron.uid_str().to_owned());
    let mut completed: BTreeMap<String, BTreeSet<ObjectKey>> =
        uids.map(|uid| (uid, BTreeSet::new())).collect();
    if completed.is_empty() {
        return Err("there is no CronJob: create one, or run again with --sample".into());
    }
    while completed.values().any(|jobs| jobs.len() < count) {
        let Ok(delivery) = tokio::time::timeout(PATIENCE, jobs.next()).await else {
            let (seconds, states) = (PATIENCE.as_secs(), states(manager).await?.join("; "));
            return Err(format!("no Job completed for {seconds} s: {states}").into());
        };
        let event = match delivery {
            None => return Err("the watch of Jobs ended".into()),
            Some(Delivery::Event(event)) => event,
            Some(_) => continue,
        };
        let job = event.entry().object();
        let owner = owner::controller_of(&job.metadata);
        if let Some(jobs) = owner.and_then(|owner| completed.get_mut(&owner.uid))
            && job::state(&job) == JobState::Complete
        {
            jobs.insert(job.key());
        }
    }
    Ok(())
}

/// Returns the conditions of all CronJobs.
async fn states(manager: &Manager) -> Result<Vec<String>, BoxError> {
    let crons = manager.cache().list::<CronJob>(&ListOptions::new()).await?;
    let says = crons.iter().map(|cron| {
        let ready = find(cron.conditions(), READY);
        let message = ready.map_or("no status was written", |ready| &ready.message);
        format!("CronJob {}: {message}", cron.key())
    });
    Ok(says.collect())
}
