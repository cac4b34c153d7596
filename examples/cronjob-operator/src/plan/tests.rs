//! Tables of the decisions, at given times.

use steersman::k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::cron_job::{CronJobSpec, CronJobStatus};

fn at(text: &str) -> Timestamp {
    format!("2026-07-15T{text}Z").parse().unwrap()
}

/// Returns a `CronJob` of 10:00:30 with a Job each five minutes.
fn cron() -> CronJob {
    let spec = CronJobSpec {
        schedule: "*/5 * * * *".to_owned(),
        time_zone: None,
        starting_deadline_seconds: None,
        concurrency_policy: ConcurrencyPolicy::Allow,
        suspend: false,
        job_template: Default::default(),
        successful_jobs_history_limit: 2,
        failed_jobs_history_limit: 1,
    };
    let mut cron = CronJob::new("report", spec);
    cron.metadata.creation_timestamp = Some(Time(at("10:00:30")));
    cron
}

fn job(time: &str, end: Option<&str>) -> Arc<Job> {
    let mut job = job::new_job(&cron(), at(time));
    let condition = end.map(|end| JobCondition {
        type_: end.to_owned(),
        status: "True".to_owned(),
        ..JobCondition::default()
    });
    job.status = Some(JobStatus {
        conditions: condition.map(|condition| vec![condition]),
        ..JobStatus::default()
    });
    Arc::new(job)
}

#[test]
fn before_the_first_time_nothing_starts() {
    let plan = plan(&cron(), &[], at("10:04:59"));
    assert_eq!((plan.start, plan.next), (None, Some(at("10:05:00"))));
    assert_eq!(plan.progress, Progress::Scheduled);
}

#[test]
fn at_its_time_a_job_starts_once() {
    let now = at("10:05:00");
    let plan_of = |cron: &CronJob, jobs: &[Arc<Job>]| plan(cron, jobs, now);
    let first = plan_of(&cron(), &[]);
    assert_eq!((first.start, first.next), (Some(now), Some(at("10:10:00"))));
    // The Job exists, and the status was not written.
    let jobs = [job("10:05:00", None)];
    assert_eq!(plan_of(&cron(), &jobs).start, None);
    // The status was written, and the Job was deleted.
    let mut seen = cron();
    seen.status = Some(CronJobStatus {
        last_schedule_time: Some(Time(now)),
        ..CronJobStatus::default()
    });
    assert_eq!(plan_of(&seen, &[]).start, None);
}

#[test]
fn of_several_missed_times_only_the_last_counts() {
    let plan = plan(&cron(), &[], at("11:52:10"));
    assert_eq!(plan.start, Some(at("11:50:00")));
    assert_eq!(plan.next, Some(at("11:55:00")));
}

#[test]
fn a_time_past_its_deadline_is_missed() {
    let mut cron = cron();
    cron.spec.starting_deadline_seconds = Some(60);
    let plan_at = |now: &str| plan(&cron, &[], at(now));
    assert_eq!(plan_at("10:06:00").start, Some(at("10:05:00")));
    let late = plan_at("10:06:01");
    assert_eq!(late.start, None);
    let missed = at("10:05:00");
    assert_eq!(late.progress, Progress::Missed { at: missed });
    assert_eq!(late.next, Some(at("10:10:00")));
}

#[test]
fn the_policy_decides_about_a_running_job() {
    let jobs = [job("10:05:00", None)];
    let now = at("10:10:00");
    let plan_of = |policy| {
        let mut cron = cron();
        cron.spec.concurrency_policy = policy;
        plan(&cron, &jobs, now)
    };
    let allowed = plan_of(ConcurrencyPolicy::Allow);
    assert_eq!((allowed.start, allowed.delete.len()), (Some(now), 0));
    let forbidden = plan_of(ConcurrencyPolicy::Forbid);
    assert_eq!(forbidden.start, None);
    assert_eq!(forbidden.progress, Progress::Waiting { at: now });
    let replaced = plan_of(ConcurrencyPolicy::Replace);
    assert_eq!(replaced.start, Some(now));
    assert_eq!(replaced.delete, jobs);
    // A finished Job does not run.
    let ended = [job("10:05:00", Some("Complete"))];
    let mut cron = cron();
    cron.spec.concurrency_policy = ConcurrencyPolicy::Forbid;
    assert_eq!(plan(&cron, &ended, now).start, Some(now));
}

#[test]
fn a_suspended_schedule_starts_nothing_and_still_prunes() {
    let mut cron = cron();
    cron.spec.suspend = true;
    cron.spec.successful_jobs_history_limit = 0;
    let ended = [job("10:05:00", Some("Complete"))];
    let plan = plan(&cron, &ended, at("10:10:00"));
    assert_eq!((plan.start, plan.next), (None, None));
    assert_eq!(plan.delete, ended);
    assert_eq!(plan.progress, Progress::Suspended);
}

#[test]
fn the_oldest_finished_jobs_beyond_the_limits_go() {
    let jobs = [
        job("10:25:00", Some("Complete")),
        job("10:05:00", Some("Complete")),
        job("10:15:00", Some("Complete")),
        job("10:10:00", Some("Failed")),
        job("10:20:00", Some("Failed")),
        job("10:30:00", None),
    ];
    let plan = plan(&cron(), &jobs, at("10:31:00"));
    let deleted: Vec<Timestamp> = plan
        .delete
        .iter()
        .filter_map(|job| job::scheduled_at(job))
        .collect();
    assert_eq!(deleted, [at("10:05:00"), at("10:10:00")]);
}

#[test]
fn a_wrong_schedule_or_zone_starts_nothing() {
    let mut cron = cron();
    cron.spec.schedule = "never".to_owned();
    let is_invalid = |cron: &CronJob| {
        let plan = plan(cron, &[], at("10:05:00"));
        matches!(plan.progress, Progress::Invalid { .. }) && plan.next.is_none()
    };
    assert!(is_invalid(&cron));
    cron.spec.schedule = "* * * * *".to_owned();
    cron.spec.time_zone = Some("Nowhere".to_owned());
    assert!(is_invalid(&cron));
}
