//! Machine: decides at a given time which Job starts, which Jobs are deleted, and when to look again.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use steersman::k8s_openapi::api::batch::v1::Job;

use crate::cron_job::{ConcurrencyPolicy, CronJob};
use crate::job::{self, JobState};
use crate::schedule::{Schedule, ScheduleError, time_zone};

// ANCHOR: plan
/// What is to be done for a `CronJob` at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The Jobs to delete first: finished ones beyond the history limits, and running ones to replace.
    pub(crate) delete: Vec<Arc<Job>>,
    /// The scheduled time of the Job to start.
    pub(crate) start: Option<Timestamp>,
    /// The next scheduled time; `None` if nothing starts without a change of the `CronJob`.
    pub(crate) next: Option<Timestamp>,
    /// The state of the schedule, for the condition.
    pub(crate) progress: Progress,
}
// ANCHOR_END: plan

/// The state of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Jobs start at their times.
    Scheduled,
    /// The Job of a time did not start before its deadline.
    Missed { at: Timestamp },
    /// The Job of a time waits for the end of an earlier one.
    Waiting { at: Timestamp },
    /// The user suspended the schedule.
    Suspended,
    /// The schedule has no times.
    Invalid { why: ScheduleError },
    /// The server does not accept the Job.
    Refused { why: String },
}

/// Decides what is to be done for `cron` at `now`. `jobs` are the Jobs that it controls.
pub(crate) fn plan(cron: &CronJob, jobs: &[Arc<Job>], now: Timestamp) -> Plan {
    let mut plan = Plan {
        delete: beyond_the_limits(cron, jobs),
        start: None,
        next: None,
        progress: Progress::Scheduled,
    };
    if cron.spec.suspend {
        plan.progress = Progress::Suspended;
        return plan;
    }
    let parsed = Schedule::parse(&cron.spec.schedule);
    let zone = time_zone(cron.spec.time_zone.as_deref());
    let (schedule, zone) = match parsed.and_then(|schedule| Ok((schedule, zone?))) {
        Ok(found) => found,
        Err(why) => {
            plan.progress = Progress::Invalid { why };
            return plan;
        }
    };
    plan.next = schedule.next_after(now, &zone);
    // Only the last of several missed times counts: the Jobs of a night without the operator do not start at once.
    let Some(at) = schedule.last_between(begin(cron, jobs, now), now, &zone) else {
        return plan;
    };
    let active = || {
        jobs.iter()
            .filter(|job| job::state(job) == JobState::Active)
    };
    if is_past_deadline(cron, at, now) {
        plan.progress = Progress::Missed { at };
    } else if cron.spec.concurrency_policy == ConcurrencyPolicy::Forbid && active().count() > 0 {
        // The end of the Job is an event.
        plan.progress = Progress::Waiting { at };
    } else {
        if cron.spec.concurrency_policy == ConcurrencyPolicy::Replace {
            plan.delete.extend(active().cloned());
        }
        plan.start = Some(at);
    }
    plan
}

/// Returns the time after which Jobs are due: that of the last one, or else that of the creation.
fn begin(cron: &CronJob, jobs: &[Arc<Job>], now: Timestamp) -> Timestamp {
    let created = cron.metadata.creation_timestamp.as_ref();
    last_scheduled(cron, jobs)
        .or_else(|| created.map(|time| time.0))
        .unwrap_or(now)
}

/// Returns the last scheduled time with a Job.
///
/// The status may lack the last one, if the operator stopped before it wrote the status. The Jobs may
/// lack it, if they were deleted.
pub(crate) fn last_scheduled(cron: &CronJob, jobs: &[Arc<Job>]) -> Option<Timestamp> {
    let status = cron.status.as_ref();
    let known = status.and_then(|status| status.last_schedule_time.as_ref());
    let of_jobs = jobs.iter().filter_map(|job| job::scheduled_at(job)).max();
    known.map(|time| time.0).max(of_jobs)
}

fn is_past_deadline(cron: &CronJob, at: Timestamp, now: Timestamp) -> bool {
    let deadline = cron.spec.starting_deadline_seconds;
    deadline.is_some_and(|seconds| {
        let end = at.saturating_add(SignedDuration::from_secs(seconds));
        end.is_ok_and(|end| end < now)
    })
}

/// Returns the oldest finished Jobs beyond the history limits.
fn beyond_the_limits(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let limits = [
        (JobState::Complete, cron.spec.successful_jobs_history_limit),
        (JobState::Failed, cron.spec.failed_jobs_history_limit),
    ];
    let mut found = Vec::new();
    for (state, limit) in limits {
        let ended = jobs.iter().filter(|job| job::state(job) == state);
        let mut ended: Vec<&Arc<Job>> = ended.collect();
        ended.sort_by_key(|job| (job::scheduled_at(job), job.metadata.name.clone()));
        let surplus = ended
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        found.extend(ended.into_iter().take(surplus).cloned());
    }
    found
}

#[cfg(test)]
mod tests;
