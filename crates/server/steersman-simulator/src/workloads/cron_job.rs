//! Machine: the CronJob controller, which starts a Job at each time of a schedule.
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
use crate::actions::event_correlator::{EventContent, EventSource};
use crate::actions::turn_context::{Component, TurnContext};
use crate::state::facts::{
    SimulatedKey, SimulatedKind, controller_reference, is_condition_true, text, time,
};

/// The annotation of a Job with the time it was scheduled for.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// An Event reports missed times only beyond this number.
const MANY_MISSED: i64 = 100;
/// How long a CronJob waits after the server refused its Job.
const RETRY_AFTER_REFUSAL: Duration = Duration::from_secs(10);

/// The times at which a CronJob was or will be due.
#[derive(Debug, PartialEq, Eq)]
struct DueTimes {
    /// The latest past time without a Job.
    missed: Option<Timestamp>,
    /// Whether many times were missed.
    many: bool,
    /// The time from which missed times were counted.
    since: Timestamp,
}

/// The parsed `schedule` and `timeZone`.
struct CronSchedule {
    schedule: Schedule,
    zone: TimeZone,
}

impl TurnContext<'_> {
    /// Starts the Job that is due, records which Jobs ended, and requeues the CronJob for the next
    /// time.
    pub(crate) fn reconcile_cron_job(&mut self, key: &SimulatedKey) {
        let Some(cron) = self.get(SimulatedKind::CronJob, &key.namespace, &key.name) else {
            return;
        };
        let kind = Arc::clone(self.kinds.of(SimulatedKind::Job));
        let jobs = self.controlled(&kind, cron.meta("uid"));
        let mut status = cron.lean()["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        let mut active: Vec<Value> = status["active"].as_array().cloned().unwrap_or_default();
        self.record_finished_jobs(&cron, &jobs, (&mut status, &mut active));
        if cron.meta("deletionTimestamp").is_empty() {
            self.run_due(key, &cron, (&mut status, &mut active));
        }
        self.delete_old_jobs(&cron, &jobs, &mut active);
        if active.is_empty() {
            if let Some(fields) = status.as_object_mut() {
                fields.remove("active");
            }
        } else {
            status["active"] = Value::Array(active);
        }
        self.write_status(
            SimulatedKind::CronJob,
            Component::Controllers,
            &cron,
            status,
        );
    }

    /// Removes the Jobs that ended or were deleted from the list of active Jobs.
    fn record_finished_jobs(
        &mut self,
        cron: &Stored,
        jobs: &[Arc<Stored>],
        (status, active): (&mut Value, &mut Vec<Value>),
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
                    let content = EventContent::warning("UnexpectedJob", message);
                    self.event(cron, EventSource::CronJobs, &content);
                }
                continue;
            }
            let complete = is_condition_true(job.lean(), "Complete");
            if listed {
                active.retain(|one| one["uid"] != uid);
                let end = if complete { "Complete" } else { "Failed" };
                let message = format!("Saw completed job: {}, condition: {end}", job.name);
                let content = EventContent::normal("SawCompletedJob", message);
                self.event(cron, EventSource::CronJobs, &content);
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
                let content = EventContent::normal("MissingJob", message);
                self.event(cron, EventSource::CronJobs, &content);
            }
            there
        });
    }

    fn run_due(
        &mut self,
        key: &SimulatedKey,
        cron: &Stored,
        (status, active): (&mut Value, &mut Vec<Value>),
    ) {
        let spec = &cron.lean()["spec"];
        if spec["suspend"] == true {
            return;
        }
        let terms = match CronSchedule::of(spec) {
            Ok(terms) => terms,
            Err(content) => return self.event(cron, EventSource::CronJobs, &content),
        };
        let now = self.now.wall;
        let deadline = spec["startingDeadlineSeconds"].as_i64();
        let due = terms.due(cron, now, deadline);
        let Ok(DueTimes { missed, many, .. }) = due else {
            let schedule = text(spec, "schedule");
            let why = "time difference between two schedules is less than 1 second";
            let message = format!("invalid schedule: {schedule} : {why}");
            let content = EventContent::warning("InvalidSchedule", message);
            return self.event(cron, EventSource::CronJobs, &content);
        };
        if many {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            let content = EventContent::warning("TooManyMissedTimes", message.to_owned());
            self.event(cron, EventSource::CronJobs, &content);
        }
        if let Some(at) = missed {
            self.start_job(key, cron, &terms, at, (status, active));
        }
        // The deadline is ignored here, so the next time counts from the last one.
        let next = terms.due(cron, now, None).ok();
        let from = next.map_or(now, |due| due.missed.unwrap_or(due.since));
        if let Some(next) = terms.schedule.next(from.max(now), &terms.zone) {
            let left = next.duration_since(now);
            let left = Duration::try_from(left).unwrap_or_default();
            self.requeue_at(key.clone(), self.now.tick.saturating_add(left));
        }
    }

    /// Starts the Job for one time, unless the time is too long ago, the Job was started before, or
    /// the concurrency policy forbids it.
    fn start_job(
        &mut self,
        key: &SimulatedKey,
        cron: &Stored,
        terms: &CronSchedule,
        at: Timestamp,
        (status, active): (&mut Value, &mut Vec<Value>),
    ) {
        let spec = &cron.lean()["spec"];
        if let Some(seconds) = spec["startingDeadlineSeconds"].as_i64()
            && at.as_second().saturating_add(seconds) < self.now.wall.as_second()
        {
            let when = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {when}");
            let content = EventContent::warning("MissSchedule", message);
            return self.event(cron, EventSource::CronJobs, &content);
        }
        let name = format!("{}-{}", cron.name, at.as_second().div_euclid(60));
        let listed = active.iter().any(|one| one["name"] == name);
        if listed || time(&status["lastScheduleTime"]) == Some(at) {
            return;
        }
        let policy = text(spec, "concurrencyPolicy");
        if policy == "Forbid" && !active.is_empty() {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            let content = EventContent::normal("JobAlreadyActive", message.to_owned());
            return self.event(cron, EventSource::CronJobs, &content);
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
        let kind = Arc::clone(self.kinds.of(SimulatedKind::Job));
        let made = self.create(&kind, &cron.namespace, new_job(cron, &name, terms, at));
        let job = match made {
            Ok(job) => {
                let content =
                    EventContent::normal("SuccessfulCreate", format!("Created job {name}"));
                self.event(cron, EventSource::CronJobs, &content);
                job
            }
            Err(refusal) => {
                let known = self.get(SimulatedKind::Job, &cron.namespace, &name);
                let own = known.filter(|job| job.owners().any(|uid| uid == cron.meta("uid")));
                if let Some(own) = own {
                    own
                } else {
                    let message = format!("Error creating job: {}", refusal.message);
                    let content = EventContent::warning("FailedCreate", message);
                    self.event(cron, EventSource::CronJobs, &content);
                    return self.requeue_at(
                        key.clone(),
                        self.now.tick.saturating_add(RETRY_AFTER_REFUSAL),
                    );
                }
            }
        };
        active.push(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": *job.name,
            "namespace": *job.namespace,
            "uid": job.meta("uid"),
            "resourceVersion": job.revision.to_string(),
        }));
        status["lastScheduleTime"] = json!(steersman_registry::time_text(at));
    }

    fn delete_job(&mut self, cron: &Stored, job: &Stored) {
        let kind = Arc::clone(self.kinds.of(SimulatedKind::Job));
        if self.delete(&kind, job, None) {
            let content =
                EventContent::normal("SuccessfulDelete", format!("Deleted job {}", job.name));
            self.event(cron, EventSource::CronJobs, &content);
        }
    }

    /// Deletes the oldest finished Jobs beyond the history limits.
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
    /// Parses a spec.
    ///
    /// # Errors
    /// Returns the Event about a spec that does not parse.
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

    /// Computes when a CronJob was due.
    ///
    /// Upstream: `mostRecentScheduleTime`.
    ///
    /// # Errors
    /// Fails for a schedule without times.
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
        // Skips all missed times but the last two; intervals may differ, so one is left as a margin.
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

/// Builds the Job for one time.
fn new_job(cron: &Stored, name: &str, terms: &CronSchedule, at: Timestamp) -> Value {
    let template = &cron.lean()["spec"]["jobTemplate"];
    let mut annotations = template["metadata"]["annotations"].clone();
    if !annotations.is_object() {
        annotations = json!({});
    }
    let local = at.to_zoned(terms.zone.clone());
    let stamp = if local.offset().is_zero() {
        local.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    } else {
        local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    };
    annotations[SCHEDULED_AT] = json!(stamp);
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
