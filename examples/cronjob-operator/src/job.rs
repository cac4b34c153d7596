//! Machine: the Jobs of a `CronJob`, and what can be read from one.

use jiff::Timestamp;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::cron_job::CronJob;

/// The annotation of a Job with the time that it was scheduled for.
pub const SCHEDULED_AT: &str = "batch.example.com/scheduled-at";

/// The state of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// The Job waits or runs.
    Active,
    /// The Job completed.
    Complete,
    /// The Job failed.
    Failed,
}

/// Returns the Job of a `CronJob` for one scheduled time.
///
/// The name follows from the time, so that the Job of one time exists once, however often it is created.
pub fn new_job(cron: &CronJob, at: Timestamp) -> Job {
    let template = cron.spec.job_template.clone();
    let from_template = template.metadata.unwrap_or_default();
    let mut annotations = from_template.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.to_owned(), at.to_string());
    Job {
        metadata: ObjectMeta {
            namespace: cron.metadata.namespace.clone(),
            name: Some(job_name(cron, at)),
            labels: from_template.labels,
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

// ANCHOR: name
/// Returns the name of the Job for one scheduled time: the name of the `CronJob`, and the time in minutes since 1970.
pub fn job_name(cron: &CronJob, at: Timestamp) -> String {
    let minutes = at.as_second().div_euclid(60);
    let name = cron.metadata.name.as_deref().unwrap_or_default();
    format!("{name}-{minutes}")
}
// ANCHOR_END: name

/// Returns the time that a Job was scheduled for; `None` for a Job without the annotation.
pub fn scheduled_at(job: &Job) -> Option<Timestamp> {
    let annotations = job.metadata.annotations.as_ref()?;
    annotations.get(SCHEDULED_AT)?.parse().ok()
}

/// Returns the state of a Job, from its conditions.
pub fn state(job: &Job) -> JobState {
    let conditions = job.status.iter().flat_map(|status| &status.conditions);
    let mut is_met = conditions.flatten().filter(|one| one.status == "True");
    let end = is_met.find_map(|condition| match condition.type_.as_str() {
        "Complete" => Some(JobState::Complete),
        "Failed" => Some(JobState::Failed),
        _ => None,
    });
    end.unwrap_or(JobState::Active)
}

/// Returns the time at which a Job completed.
pub fn completed_at(job: &Job) -> Option<&Time> {
    job.status.as_ref()?.completion_time.as_ref()
}
