//! Driver: reconciles CronJobs: starts and deletes Jobs, and writes the status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman::api::{DeleteOptions, Propagation};
use steersman::client::Ensured;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::object::Object as _;
use steersman::status_conditions::{self, HasConditions as _, READY};
use steersman::{
    Action, Context, Controller, Error, ListOptions, Manager, Reconciler, Request, client,
    predicate, report,
};

use crate::cron_job::CronJob;
use crate::job::new_job;
use crate::plan::{self, Plan, Progress};
use crate::status;

/// The pause before a refused Job is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Reconciles each `CronJob` into Jobs.
#[derive(Debug)]
pub struct CronJobReconciler;

/// Declares the controller: its index and its watches.
///
/// # Errors
///
/// An error if the manager's cache excludes one of the kinds, or the manager already has a controller of this name.
pub fn declare(manager: &Manager) -> Result<(), steersman::manager::Error> {
    // A list of the Jobs of one CronJob costs as much as it has Jobs, not as much as the cluster has.
    manager.cache().index_controller_uid::<Job>()?;
    let controller = Controller::builder::<CronJob>()
        // The operator's own status writes do not cause a reconcile; events of Jobs do.
        .with_predicates(predicate::generation_changed())
        .owns::<Job>()
        .build(CronJobReconciler)?;
    manager.add_controller(controller)
}

// ===== impl CronJobReconciler =====

impl Reconciler for CronJobReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(cron) = client.get_opt::<CronJob>(&request.key).await? else {
            return Ok(Action::done());
        };
        if cron.is_being_deleted() {
            // The garbage collector deletes the Jobs.
            return Ok(Action::done());
        }
        let owned = ListOptions::new()
            .namespace(request.key.namespace().unwrap_or_default())
            .controlled_by(cron.uid_str());
        let mut jobs = client.list::<Job>(&owned).await?;

        let now = ctx.now();
        let Plan {
            delete,
            start,
            next,
            mut progress,
        } = plan::plan(&cron, &jobs, now);
        for job in &delete {
            delete_job(ctx, &cron, job).await?;
        }
        if let Some(at) = start {
            match start_job(ctx, &cron, at).await {
                Ok(job) => jobs.push(job),
                Err(error) => {
                    progress = Progress::Refused {
                        why: refusal(error)?,
                    }
                }
            }
        }
        jobs.retain(|job| !delete.iter().any(|gone| gone.uid_str() == job.uid_str()));
        announce(ctx, &cron, &progress);
        let report = |cron: &mut CronJob| {
            cron.status = Some(status::status(cron, &jobs, &progress, now));
        };
        client.status().modify(&cron, report).await?;
        // ANCHOR: result
        Ok(match (&progress, next) {
            // No event says that the obstacle is gone.
            (Progress::Refused { .. }, _) => Action::requeue_after(LOOK_AGAIN),
            (_, Some(next)) => Action::requeue_at(next),
            (_, None) => Action::done(),
        })
        // ANCHOR_END: result
    }
}

/// Creates the Job of one time, or finds the one that an earlier reconcile created.
async fn start_job(
    ctx: &Context,
    cron: &CronJob,
    at: Timestamp,
) -> Result<Arc<Job>, client::Error> {
    let job = new_job(cron, at);
    // Nothing is changed in a Job that exists.
    let ensured = ctx.client().ensure(job, |_| ()).owned_by(cron).await?;
    if let Ensured::Created(job) = &ensured {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let note = format_args!("created the Job {name}");
        ctx.events()
            .normal(cron, "SuccessfulCreate", "CreateJob", note);
    }
    Ok(ensured.into_object())
}

/// Deletes a Job with its Pods, which a delete without options would leave behind.
async fn delete_job(ctx: &Context, cron: &CronJob, job: &Job) -> Result<(), client::Error> {
    if job.is_being_deleted() {
        return Ok(());
    }
    let options = DeleteOptions::new()
        .uid(job.uid_str())
        .propagation(Propagation::Background);
    match ctx.client().delete_with::<Job>(&job.key(), &options).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let note = format!("deleted the Job {}", job.key().name());
    ctx.events()
        .normal(cron, "SuccessfulDelete", "DeleteJob", note);
    Ok(())
}

/// Records an Event if the schedule has come to another state: `kubectl describe` shows it.
fn announce(ctx: &Context, cron: &CronJob, progress: &Progress) {
    let (reason, note) = (progress.reason(), progress.message());
    let reported = status_conditions::find(cron.conditions(), READY);
    if reported.is_some_and(|ready| ready.reason == reason && ready.message == note) {
        return;
    }
    match progress {
        // The Events of the Jobs say so.
        Progress::Scheduled => {}
        Progress::Waiting { .. } | Progress::Suspended => {
            ctx.events().normal(cron, reason, "Schedule", note);
        }
        Progress::Missed { .. } | Progress::Invalid { .. } | Progress::Refused { .. } => {
            ctx.events().warning(cron, reason, "Schedule", note);
        }
    }
}

/// Returns the message of an error that only a user can resolve. All other errors are returned as errors.
fn refusal(error: client::Error) -> Result<String, client::Error> {
    match matches!(error, client::Error::Owner(_)) || error.is_invalid() {
        true => Ok(report(&error).to_string()),
        false => Err(error),
    }
}
