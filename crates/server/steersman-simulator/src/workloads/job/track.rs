//! Machine: counts each finished Pod of a Job exactly once in the status of the Job.
//!
//! Upstream: `trackJobStatusAndRemoveFinalizers`. A finished Pod is first listed in the status, then loses its
//! finalizer, and then is counted, so that a crash in between neither loses the Pod nor counts it twice (PLAY-8).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::indexes::Indexes;
use super::rules::{FailureEffect, failure_effect, index_of, is_failed};
use super::sync::{JobEnd, JobSync, UncountedPods};
use crate::actions::turn_context::TurnContext;
use crate::pods::owned_pods::set_condition;
use crate::state::facts::{
    SimulatedKind, cloned_items, count, is_condition_true, is_tracked, number, text,
};

/// The time until a Job tries again after the server refused its status.
const RETRY_AFTER_REFUSAL: Duration = Duration::from_secs(1);

impl TurnContext<'_> {
    /// Counts the finished Pods, removes their finalizers, and writes the status of the Job.
    pub(super) fn write_job_status(
        &mut self,
        sync: &JobSync,
        (mut status, mut counted): (Value, UncountedPods),
        end: Option<JobEnd>,
    ) {
        let tracked = sync.pods.iter().filter(|pod| is_tracked(pod.lean()));
        let held: HashSet<String> = tracked.map(|pod| pod.meta("uid").to_owned()).collect();
        count_released(&mut status, &mut counted, &held);
        let (released, all) = self.list_finished(sync, (&mut status, &mut counted), end.as_ref());
        if !all {
            self.requeue();
        }
        let now = self.wall();
        let active = count(sync.active.len()) + sync.started;
        put_count(&mut status, "active", active);
        status["ready"] = json!(sync.ready.max(0));
        status["terminating"] = json!(sync.terminating);
        status["uncountedTerminatedPods"] = counted.written();
        if let Some(end) = &end {
            let kind = if end.succeeded {
                "SuccessCriteriaMet"
            } else {
                "FailureTarget"
            };
            if !is_condition_true(sync.job.lean(), kind) {
                put_condition(&mut status, (kind, "True"), end.why(), &now);
            }
        }
        if !self.write_status(&sync.job, status.clone()) {
            return self.requeue_after(RETRY_AFTER_REFUSAL);
        }
        for pod in &released {
            // The Pod is read again, because its deletion may have changed it.
            if let Some(pod) = self.get(SimulatedKind::Pod, &pod.namespace, &pod.name) {
                self.remove_finalizer(&pod);
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
            let kind = if end.succeeded { "Complete" } else { "Failed" };
            put_condition(&mut status, (kind, "True"), end.why(), &now);
            if end.succeeded {
                status["completionTime"] = json!(now);
            }
        }
        let Some(job) = self.object() else { return };
        if !self.write_status(&job, status) {
            return self.requeue_after(RETRY_AFTER_REFUSAL);
        }
        if let Some(end) = end {
            if end.succeeded {
                self.report(&job, "Completed", "Job completed");
            } else {
                self.warn(&job, end.known_reason(), end.message);
            }
        }
    }

    /// Adds the finished Pods of a Job to `counted`, the list in its status. Returns the Pods from which the finalizer
    /// may be removed, and whether these are all: the write limit may leave Pods for a later reconcile.
    fn list_finished(
        &self,
        sync: &JobSync,
        (status, counted): (&mut Value, &mut UncountedPods),
        end: Option<&JobEnd>,
    ) -> (Vec<Arc<Stored>>, bool) {
        let job = sync.job.lean();
        let terminating = sync.job.is_terminating();
        let valid = |pod: &Stored| index_of(pod.lean()).filter(|at| *at < sync.completions());
        let mut pods: Vec<&Arc<Stored>> = sync.pods.iter().collect();
        pods.retain(|pod| is_tracked(pod.lean()));
        pods.sort_by_key(|pod| index_of(pod.lean()));
        let room = self.write_limit.saturating_sub(self.writes).max(1);
        let (mut released, mut completed_indexes) = (Vec::new(), BTreeSet::new());
        let mut all = true;
        for pod in pods {
            let uid = pod.meta("uid");
            let succeeded = text(&pod.lean()["status"], "phase") == "Succeeded";
            let failed = is_failed(job, pod.lean());
            let kept = valid(pod).and_then(|index| sync.kept.get(&index));
            let waits = kept.is_some_and(|kept| kept.meta("uid") == uid);
            if !(terminating || end.is_some() || succeeded || (failed && !waits)) {
                continue;
            }
            if released.len() >= room {
                all = false;
                break;
            }
            released.push(Arc::clone(pod));
            let known = |list: &[String]| list.iter().any(|one| one == uid);
            if succeeded && !known(&counted.failed) {
                match valid(pod) {
                    Some(index) if sync.indexed => {
                        completed_indexes.insert(index);
                    }
                    None if sync.indexed => {}
                    _ if known(&counted.succeeded) => {}
                    _ => counted.succeeded.push(uid.to_owned()),
                }
            } else if (failed || end.is_some_and(|end| !end.succeeded))
                && !known(&counted.failed)
                && (!sync.indexed || valid(pod).is_some())
                && failure_effect(job, pod) != FailureEffect::Ignored
            {
                // When a Job has failed, its Pods that did not succeed all count as failed.
                counted.failed.push(uid.to_owned());
            }
        }
        if sync.indexed {
            let completed_indexes = sync.completed_before.and(&Indexes::of(&completed_indexes));
            put_count(status, "succeeded", completed_indexes.count());
            if !completed_indexes.is_empty() {
                status["completedIndexes"] = json!(completed_indexes.to_string());
            }
            if let Some(failed_indexes) = &sync.failed_indexes {
                status["failedIndexes"] = json!(failed_indexes.to_string());
            }
        }
        (released, all)
    }
}

impl JobEnd {
    fn why(&self) -> (&str, &str) {
        (&self.reason, &self.message)
    }

    /// Returns the reason of the Job's failure as a constant, as an Event needs it; `Failed` for an unknown reason.
    fn known_reason(&self) -> &'static str {
        const ALL: [&str; 6] = [
            "BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy",
            "MaxFailedIndexesExceeded", "FailedIndexes", "SuccessPolicy",
        ];
        let known = ALL.into_iter().find(|one| *one == self.reason);
        known.unwrap_or("Failed")
    }
}

/// Moves the Pods that no longer have the finalizer from the list of uncounted Pods to the counts.
fn count_released(status: &mut Value, counted: &mut UncountedPods, held: &HashSet<String>) {
    for (field, uids) in [
        ("succeeded", &mut counted.succeeded),
        ("failed", &mut counted.failed),
    ] {
        let before = uids.len();
        uids.retain(|uid| held.contains(uid));
        let released = count(before - uids.len());
        if released > 0 {
            let many = number(&status[field], 0).saturating_add(released);
            status[field] = json!(many);
        }
    }
}

/// Writes a count into a field of a status, or removes the field if the count is 0.
fn put_count(status: &mut Value, field: &str, count: i64) {
    if count > 0 {
        status[field] = json!(count);
    } else if let Some(fields) = status.as_object_mut() {
        fields.remove(field);
    }
}

pub(super) fn put_condition(
    status: &mut Value,
    (kind, holds): (&str, &str),
    (reason, message): (&str, &str),
    now: &str,
) {
    let condition = json!({
        "type": kind, "status": holds, "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    });
    let mut conditions = cloned_items(&status["conditions"]);
    set_condition(&mut conditions, condition);
    status["conditions"] = Value::Array(conditions);
}
