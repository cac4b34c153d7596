//! Machine: the status of a `CronJob`, computed from its Jobs.

use std::sync::Arc;

use jiff::Timestamp;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::k8s_openapi::api::core::v1::ObjectReference;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use steersman::status_conditions::{self, FALSE, READY, TRUE};

use crate::cron_job::{CronJob, CronJobStatus};
use crate::job::{self, JobState};
use crate::plan::{Progress, last_scheduled};

impl Progress {
    /// Returns the reason of the condition, and of the Event.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::Missed { .. } => "MissedDeadline",
            Self::Waiting { .. } => "WaitingForJob",
            Self::Suspended => "Suspended",
            Self::Invalid { .. } => "InvalidSchedule",
            Self::Refused { .. } => "Refused",
        }
    }

    /// Returns the text of the condition, and of the Event.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Scheduled => "Jobs start by the schedule".to_owned(),
            Self::Missed { at } => format!(
                "the Job of {at} was not started within .spec.startingDeadlineSeconds; the next one starts at its time"
            ),
            Self::Waiting { at } => format!(
                "the Job of {at} waits for the end of an earlier one, because .spec.concurrencyPolicy is Forbid"
            ),
            Self::Suspended => "no Jobs start, because .spec.suspend is true".to_owned(),
            Self::Invalid { why } => why.to_string(),
            Self::Refused { why } => why.clone(),
        }
    }

    /// Returns whether Jobs start at their times.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Scheduled | Self::Missed { .. } | Self::Waiting { .. } => true,
            Self::Suspended | Self::Invalid { .. } | Self::Refused { .. } => false,
        }
    }
}

/// Returns the status of `cron` at `now`. `jobs` are the Jobs that it controls.
///
/// Unchanged Jobs give an unchanged status, and no request.
pub(crate) fn status(
    cron: &CronJob,
    jobs: &[Arc<Job>],
    progress: &Progress,
    now: Timestamp,
) -> CronJobStatus {
    let before = cron.status.clone().unwrap_or_default();
    let mut conditions = before.conditions;
    let state = if progress.is_ready() { TRUE } else { FALSE };
    let (reason, message) = (progress.reason(), progress.message());
    let ready = status_conditions::condition(cron, READY, state, reason, message, now);
    status_conditions::set(&mut conditions, ready);
    let in_state = |state: JobState| jobs.iter().filter(move |job| job::state(job) == state);
    let active = in_state(JobState::Active);
    let mut active: Vec<ObjectReference> = active.map(|job| reference(job)).collect();
    active.sort_by(|a, b| a.name.cmp(&b.name));
    let complete = in_state(JobState::Complete);
    let completed = complete
        .filter_map(|job| job::completed_at(job))
        .map(|time| time.0);
    let last_success = before.last_successful_time.map(|time| time.0);
    CronJobStatus {
        observed_generation: cron.metadata.generation,
        active,
        last_schedule_time: last_scheduled(cron, jobs).map(Time),
        last_successful_time: completed.max().max(last_success).map(Time),
        conditions,
    }
}

/// Returns a reference to a Job, without its version, which changes with each of its steps.
fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
