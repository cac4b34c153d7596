//! Machine: counts the Pods of a Job into its status, each exactly once.
//!
//! Upstream: `trackJobStatusAndRemoveFinalizers`. A finished Pod is first listed in the status,
//! then loses its finalizer, and then is counted, so that a crash in between neither loses it nor
//! counts it twice (PLAY-8).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_registry::store::Stored;

use super::indexes::Indexes;
use super::rules::{Judgement, index_of, is_failed, judge};
use super::sync::{End, Sync, UncountedPods, count};
use crate::actions::event_correlator::{EventContent, Source};
use crate::actions::world::{Part, World};
use crate::pods::owned_pods::set_condition;
use crate::state::facts::{Key, Kind, holds, is_tracked, number, text};

/// How long a Job waits after the server refused its status.
const REFUSED: Duration = Duration::from_secs(1);

impl World<'_> {
    /// Counts finished Pods, removes their finalizers, and writes the status, including the end of
    /// the Job if it is reached.
    pub(super) fn settle_job(
        &mut self,
        key: &Key,
        sync: &Sync,
        (mut status, mut counted): (Value, UncountedPods),
        end: Option<End>,
    ) {
        let tracked = sync.pods.iter().filter(|pod| is_tracked(pod.lean()));
        let held: HashSet<String> = tracked.map(|pod| pod.meta("uid").to_owned()).collect();
        count_released(&mut status, &mut counted, &held);
        let (released, all) = self.name_ended(sync, (&mut status, &mut counted), end.as_ref());
        if !all {
            self.again(key);
        }
        let now = self.wall();
        let active = count(sync.active.iter()) + sync.started;
        put_count(&mut status, "active", active);
        status["ready"] = json!(sync.ready.max(0));
        status["terminating"] = json!(sync.terminating);
        status["uncountedTerminatedPods"] = counted.written();
        let before = end.as_ref().map(|end| match end.well {
            true => ("SuccessCriteriaMet", end),
            false => ("FailureTarget", end),
        });
        if let Some((kind, end)) = before.filter(|(kind, _)| !holds(sync.job.lean(), kind)) {
            let reason = (end.reason.as_str(), end.message.as_str());
            put_condition(&mut status, condition(kind, "True", reason, &now));
        }
        let job = Arc::clone(&sync.job);
        if !self.report(Kind::Job, Part::Controllers, &job, status.clone()) {
            return self.later(key.clone(), self.now.tick.saturating_add(REFUSED));
        }
        for pod in &released {
            // Deleting the Pod may have changed it.
            if let Some(pod) = self.get(Kind::Pod, &pod.namespace, &pod.name) {
                self.release(&pod);
            }
        }
        let gone = released.iter().map(|pod| pod.meta("uid").to_owned());
        let gone: HashSet<String> = gone.collect();
        let held: HashSet<String> = held.difference(&gone).cloned().collect();
        count_released(&mut status, &mut counted, &held);
        status["uncountedTerminatedPods"] = counted.written();
        let settled = all && counted.succeeded.is_empty() && counted.failed.is_empty();
        let end = end.filter(|_| settled && sync.terminating == 0);
        if let Some(end) = &end {
            let kind = if end.well { "Complete" } else { "Failed" };
            let reason = (end.reason.as_str(), end.message.as_str());
            put_condition(&mut status, condition(kind, "True", reason, &now));
            if end.well {
                status["completionTime"] = json!(now);
            }
        }
        let Some(job) = self.get(Kind::Job, &key.namespace, &key.name) else {
            return;
        };
        if !self.report(Kind::Job, Part::Controllers, &job, status) {
            return self.later(key.clone(), self.now.tick.saturating_add(REFUSED));
        }
        if let Some(end) = end {
            let content = if end.well {
                EventContent::normal("Completed", "Job completed".to_owned())
            } else {
                EventContent::warning(end.known_reason(), end.message)
            };
            self.event(&job, Source::Jobs, &content);
        }
    }

    /// Lists finished Pods in the status. Returns the Pods that may lose their finalizer, up to the
    /// limit of the list, and whether these are all.
    fn name_ended(
        &self,
        sync: &Sync,
        (status, counted): (&mut Value, &mut UncountedPods),
        end: Option<&End>,
    ) -> (Vec<Arc<Stored>>, bool) {
        let job = sync.job.lean();
        let leaving = !sync.job.meta("deletionTimestamp").is_empty();
        let valid = |pod: &Stored| index_of(pod.lean()).filter(|at| *at < sync.completions());
        let mut pods: Vec<&Arc<Stored>> = sync.pods.iter().collect();
        pods.retain(|pod| is_tracked(pod.lean()));
        pods.sort_by_key(|pod| index_of(pod.lean()));
        let room = self.room.saturating_sub(self.writes).max(1);
        let (mut released, mut done) = (Vec::new(), BTreeSet::new());
        let mut all = true;
        for pod in pods {
            let uid = pod.meta("uid");
            let well = text(&pod.lean()["status"], "phase") == "Succeeded";
            let failed = is_failed(job, pod.lean());
            let kept = valid(pod).and_then(|index| sync.kept.get(&index));
            let waits = kept.is_some_and(|kept| kept.meta("uid") == uid);
            if !(leaving || end.is_some() || well || (failed && !waits)) {
                continue;
            }
            if released.len() >= room {
                all = false;
                break;
            }
            released.push(Arc::clone(pod));
            let known = |list: &[String]| list.iter().any(|one| one == uid);
            if well && !known(&counted.failed) {
                match valid(pod) {
                    Some(index) if sync.indexed => {
                        done.insert(index);
                    }
                    None if sync.indexed => {}
                    _ if known(&counted.succeeded) => {}
                    _ => counted.succeeded.push(uid.to_owned()),
                }
            } else if (failed || end.is_some_and(|end| !end.well))
                && !known(&counted.failed)
                && (!sync.indexed || valid(pod).is_some())
                && judge(job, pod) != Judgement::Ignored
            {
                // Once the Job failed, Pods that did not succeed count as failed.
                counted.failed.push(uid.to_owned());
            }
        }
        if sync.indexed {
            let done = sync.done_before.and(&Indexes::of(&done));
            put_count(status, "succeeded", done.count());
            if !done.is_empty() {
                status["completedIndexes"] = json!(done.to_string());
            }
            if let Some(lost) = &sync.lost {
                status["failedIndexes"] = json!(lost.to_string());
            }
        }
        (released, all)
    }
}

impl End {
    /// Returns the reason, as one of the known constants.
    fn known_reason(&self) -> &'static str {
        const ALL: [&str; 6] = [
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "PodFailurePolicy",
            "MaxFailedIndexesExceeded",
            "FailedIndexes",
            "SuccessPolicy",
        ];
        let known = ALL.into_iter().find(|one| *one == self.reason);
        known.unwrap_or("Failed")
    }
}

/// Moves the listed Pods without a finalizer into the numbers of the status.
fn count_released(status: &mut Value, counted: &mut UncountedPods, held: &HashSet<String>) {
    for (field, uids) in [
        ("succeeded", &mut counted.succeeded),
        ("failed", &mut counted.failed),
    ] {
        let before = uids.len();
        uids.retain(|uid| held.contains(uid));
        let released = i64::try_from(before - uids.len()).unwrap_or(0);
        if released > 0 {
            let many = number(&status[field], 0).saturating_add(released);
            status[field] = json!(many);
        }
    }
}

/// Writes a number, or removes the field if the number is 0.
fn put_count(status: &mut Value, field: &str, count: i64) {
    if count > 0 {
        status[field] = json!(count);
    } else if let Some(fields) = status.as_object_mut() {
        fields.remove(field);
    }
}

fn put_condition(status: &mut Value, condition: Value) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    set_condition(&mut conditions, condition);
    status["conditions"] = Value::Array(conditions);
}

/// Builds a condition of a Job.
pub(super) fn condition(
    kind: &str,
    holds: &str,
    (reason, message): (&str, &str),
    now: &str,
) -> Value {
    json!({
        "type": kind, "status": holds, "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    })
}
