//! Machine: the CronJob controller, which creates a Job at each time of a schedule.
//!
//! Upstream: `pkg/controller/cronjob`.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_apimachinery::schedule::Schedule;
use steersman_apimachinery::zones;
use steersman_store::Stored;

use super::job::finished;
use crate::actions::event_correlator::EventContent;
use crate::actions::turn_context::TurnContext;
use crate::state::facts::{
    SimulatedKind, cloned_items, controller_reference, is_condition_true, object_reference, text,
    time,
};

/// The annotation of a Job with the scheduled time for which it was created.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// If a CronJob missed more scheduled times than this, an Event warns about the clock and the deadline.
const MANY_MISSED: i64 = 100;
/// The time until a CronJob tries again after the server refused to create a Job.
const RETRY_AFTER_REFUSAL: Duration = Duration::from_secs(10);

/// The scheduled times of a CronJob that are over and for which no Job was created.
#[derive(Debug, PartialEq, Eq)]
struct DueTimes {
    /// The latest scheduled time between `since` and now, for which a Job is to be created; `None` without such a time.
    missed: Option<Timestamp>,
    /// Whether more than [`MANY_MISSED`] scheduled times were missed.
    many: bool,
    /// The time after which missed scheduled times are searched: `lastScheduleTime`, or the creation of the CronJob
    /// without it; `startingDeadlineSeconds` before now, if that is later.
    since: Timestamp,
}

/// The status of a CronJob that this reconcile writes, and the references that become its field `active`.
struct CronStatus {
    status: Value,
    active: Vec<Value>,
}

/// The parsed `schedule` of a CronJob, and the time zone of its times.
struct CronSchedule {
    schedule: Schedule,
    zone: TimeZone,
}

impl TurnContext<'_> {
    /// Creates the Job that is due, records which Jobs have ended, and queues the CronJob for its next time.
    pub(crate) fn reconcile_cron_job(&mut self, cron: &Stored) {
        let jobs = self.controlled(self.kinds.of(SimulatedKind::Job), cron.meta("uid"));
        let mut status = cron.lean()["status"].clone();
        let active = cloned_items(&status["active"]);
        // The field is written again below, unless no Job is active.
        steersman_registry::members_of(&mut status).remove("active");
        let mut now = CronStatus { status, active };
        self.record_finished_jobs(cron, &jobs, &mut now);
        if !cron.is_terminating() {
            self.run_due(cron, &mut now);
        }
        self.delete_old_jobs(cron, &jobs, &mut now.active);
        if !now.active.is_empty() {
            now.status["active"] = Value::Array(now.active);
        }
        self.write_status(cron, now.status);
    }

    /// Removes from `active` the Jobs that have ended or are deleted, and writes Events about these Jobs.
    fn record_finished_jobs(
        &mut self,
        cron: &Stored,
        jobs: &[Arc<Stored>],
        CronStatus { status, active }: &mut CronStatus,
    ) {
        for job in jobs {
            let uid = job.meta("uid");
            let listed = active.iter().any(|one| one["uid"] == uid);
            if finished(job.lean()).is_none() {
                if !listed {
                    let message = format!(
                        "Saw a job that the controller did not create or forgot: {}",
                        job.name
                    );
                    self.warn(cron, "UnexpectedJob", message);
                }
                continue;
            }
            let complete = is_condition_true(job.lean(), "Complete");
            if listed {
                active.retain(|one| one["uid"] != uid);
                let end = if complete { "Complete" } else { "Failed" };
                let message = format!("Saw completed job: {}, condition: {end}", job.name);
                self.report(cron, "SawCompletedJob", message);
            }
            let done = &job.lean()["status"]["completionTime"];
            let last = time(&status["lastSuccessfulTime"]);
            if complete && time(done).is_some_and(|done| last.is_none_or(|last| done > last)) {
                status["lastSuccessfulTime"] = done.clone();
            }
        }
        active.retain(|one| {
            let there = jobs.iter().any(|job| one["uid"] == job.meta("uid"));
            if !there {
                let message = format!("Active job went missing: {}", text(one, "name"));
                self.report(cron, "MissingJob", message);
            }
            there
        });
    }

    fn run_due(&mut self, cron: &Stored, status: &mut CronStatus) {
        let spec = &cron.lean()["spec"];
        if spec["suspend"] == true {
            return;
        }
        let terms = match CronSchedule::of(spec) {
            Ok(terms) => terms,
            Err(content) => return self.event(cron, &content),
        };
        let now = self.now.wall;
        let deadline = spec["startingDeadlineSeconds"].as_i64();
        let due = terms.due(cron, now, deadline);
        let Ok(DueTimes { missed, many, .. }) = due else {
            let schedule = text(spec, "schedule");
            let why = "time difference between two schedules is less than 1 second";
            let message = format!("invalid schedule: {schedule} : {why}");
            return self.warn(cron, "InvalidSchedule", message);
        };
        if many {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn(cron, "TooManyMissedTimes", message);
        }
        if let Some(at) = missed {
            self.start_job(cron, &terms, at, status);
        }
        // As upstream, without the deadline: the next Job is due after now, or after a future `lastScheduleTime`.
        let next = terms.due(cron, now, None).ok();
        let from = next.map_or(now, |due| due.since);
        if let Some(next) = terms.schedule.next(from.max(now), &terms.zone) {
            let left = Duration::try_from(next.duration_since(now));
            self.requeue_after(left.unwrap_or_default());
        }
    }

    /// Creates the Job of one scheduled time, unless the starting deadline or the concurrency policy forbids it.
    fn start_job(
        &mut self,
        cron: &Stored,
        terms: &CronSchedule,
        at: Timestamp,
        CronStatus { status, active }: &mut CronStatus,
    ) {
        let spec = &cron.lean()["spec"];
        if let Some(seconds) = spec["startingDeadlineSeconds"].as_i64()
            && at.as_second().saturating_add(seconds) < self.now.wall.as_second()
        {
            let when = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {when}");
            return self.warn(cron, "MissSchedule", message);
        }
        let name = format!("{}-{}", cron.name, at.as_second().div_euclid(60));
        let listed = active.iter().any(|one| one["name"] == name);
        if listed || time(&status["lastScheduleTime"]) == Some(at) {
            return;
        }
        let policy = text(spec, "concurrencyPolicy");
        if policy == "Forbid" && !active.is_empty() {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            return self.report(cron, "JobAlreadyActive", message);
        }
        if policy == "Replace" {
            for one in std::mem::take(active) {
                let other = text(&one, "name");
                let job = self.get(SimulatedKind::Job, &cron.namespace, other);
                if let Some(job) = job.filter(|job| one["uid"] == job.meta("uid")) {
                    self.delete_job(cron, &job);
                }
            }
        }
        let kind = self.kinds.of(SimulatedKind::Job);
        let made = self.create(kind, &cron.namespace, new_job(cron, &name, terms, at));
        let job = match made {
            Ok(job) => {
                self.report(cron, "SuccessfulCreate", format!("Created job {name}"));
                job
            }
            Err(refusal) => {
                let known = self.get(SimulatedKind::Job, &cron.namespace, &name);
                let own = known.filter(|job| job.owners().any(|uid| uid == cron.meta("uid")));
                if let Some(own) = own {
                    own
                } else {
                    let message = format!("Error creating job: {}", refusal.message);
                    self.warn(cron, "FailedCreate", message);
                    return self.requeue_after(RETRY_AFTER_REFUSAL);
                }
            }
        };
        active.push(object_reference(&job));
        status["lastScheduleTime"] = json!(steersman_registry::time_text(at));
    }

    fn delete_job(&mut self, cron: &Stored, job: &Stored) {
        if self.delete(self.kinds.of(SimulatedKind::Job), job, None) {
            let message = format!("Deleted job {}", job.name);
            self.report(cron, "SuccessfulDelete", message);
        }
    }

    /// Deletes the oldest finished Jobs above `successfulJobsHistoryLimit` and `failedJobsHistoryLimit`.
    fn delete_old_jobs(&mut self, cron: &Stored, jobs: &[Arc<Stored>], active: &mut Vec<Value>) {
        for (limit, end) in [
            ("successfulJobsHistoryLimit", "Complete"),
            ("failedJobsHistoryLimit", "Failed"),
        ] {
            let Some(keep) = cron.lean()["spec"][limit].as_u64() else {
                continue;
            };
            let ended = jobs.iter().filter(|job| is_condition_true(job.lean(), end));
            let mut ended: Vec<&Arc<Stored>> = ended.collect();
            ended.sort_by_key(|job| {
                let began = text(&job.lean()["status"], "startTime");
                (began.is_empty(), began.to_owned(), Arc::clone(&job.name))
            });
            let keep = usize::try_from(keep).unwrap_or(usize::MAX);
            for job in ended.iter().take(ended.len().saturating_sub(keep)) {
                self.delete_job(cron, job);
                active.retain(|one| one["uid"] != job.meta("uid"));
            }
        }
    }
}

impl CronSchedule {
    /// Parses the `schedule` and the `timeZone` in the spec of a CronJob.
    ///
    /// # Errors
    /// Returns the warning to write as an Event if one of the two does not parse.
    fn of(spec: &Value) -> Result<Self, EventContent> {
        let text = text(spec, "schedule");
        let name = spec["timeZone"].as_str();
        let named = name.map(|name| {
            zones::zone(name).ok_or_else(|| {
                let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
                EventContent::warning("UnknownTimeZone", message)
            })
        });
        let named = named.transpose()?;
        let mut schedule = Schedule::parse(text).map_err(|why| {
            let message = format!("unparseable schedule: {text:?} : {why}");
            EventContent::warning("UnparseableSchedule", message)
        })?;
        let zone = schedule.zone.take().or(named).unwrap_or(TimeZone::UTC);
        Ok(Self { schedule, zone })
    }

    /// Finds the scheduled times that a CronJob missed up to `now`, at most `deadline` seconds ago.
    ///
    /// Upstream: `mostRecentScheduleTime`.
    ///
    /// # Errors
    /// Fails for a schedule without any time in the future, such as 30 February.
    fn due(&self, cron: &Stored, now: Timestamp, deadline: Option<i64>) -> Result<DueTimes, ()> {
        let created = cron.meta("creationTimestamp").parse().unwrap_or(now);
        let last = time(&cron.lean()["status"]["lastScheduleTime"]);
        let mut since = last.unwrap_or(created);
        if let Some(seconds) = deadline {
            let bound = now.checked_sub(SignedDuration::from_secs(seconds));
            since = since.max(bound.unwrap_or(Timestamp::MIN));
        }
        let next = |at: Timestamp| self.schedule.next(at, &self.zone);
        let due = |missed, many| DueTimes {
            missed,
            many,
            since,
        };
        let first = next(since).ok_or(())?;
        if now < first {
            return Ok(due(None, false));
        }
        let second = next(first).ok_or(())?;
        if now < second {
            return Ok(due(Some(first), false));
        }
        let between = second.as_second() - first.as_second();
        let passed = now.as_second() - first.as_second();
        let missed = passed / between.max(1) + 1;
        // Jumps to about one interval before the last missed time and searches from there: intervals may differ.
        let skipped = SignedDuration::from_secs((missed - 2).max(0).saturating_mul(between));
        let mut at = first.checked_add(skipped).unwrap_or(first);
        let mut recent = first;
        while let Some(time) = next(at).filter(|time| *time <= now) {
            recent = time;
            at = time;
        }
        Ok(due(Some(recent), missed > MANY_MISSED))
    }
}

fn new_job(cron: &Stored, name: &str, terms: &CronSchedule, at: Timestamp) -> Value {
    let template = &cron.lean()["spec"]["jobTemplate"];
    let mut annotations = template["metadata"]["annotations"].clone();
    let local = at.to_zoned(terms.zone.clone());
    let zone = if local.offset().is_zero() { "Z" } else { "%:z" };
    let layout = format!("%Y-%m-%dT%H:%M:%S{zone}");
    let stamp = local.strftime(&layout);
    annotations[SCHEDULED_AT] = json!(stamp.to_string());
    let mut metadata = json!({
        "name": name,
        "namespace": *cron.namespace,
        "annotations": annotations,
        "ownerReferences": [controller_reference(cron)],
    });
    if let Some(labels) = template["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": template["spec"],
    })
}
