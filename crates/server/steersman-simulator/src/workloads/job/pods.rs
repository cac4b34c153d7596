//! Machine: the Pods of a Job: how many run, their completion indexes, and the removal of their finalizer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::indexes::Indexes;
use super::rules::{
    FAILURES, FailureEffect, IGNORED, INDEX, failure_effect, failures_of, index_of, is_failed,
    replaces_failed_only,
};
use super::sync::JobSync;
use crate::actions::turn_context::TurnContext;
use crate::state::facts::{
    PodStage, SimulatedKind, TRACKING, controller_of, count, is_condition_true, items, number,
    stage_of, track,
};

/// The delay before a Job replaces a Pod after the first failure. Each further failure doubles the delay.
const BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(600);
/// The environment variable that tells the containers of a Pod its completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Maximum length, in characters, of a Pod's name before its random suffix: 63, without the suffix of 5 characters.
const PREFIX: usize = 58;

impl TurnContext<'_> {
    /// Deletes the active Pods of a Job. Returns false if Pods are left, because the write limit is reached.
    pub(super) fn stop_active(&mut self, sync: &mut JobSync) -> bool {
        let mut all = true;
        let mut left = Vec::new();
        for pod in std::mem::take(&mut sync.active) {
            if self.is_at_write_limit() {
                all = false;
                left.push(pod);
                continue;
            }
            self.delete_pod(&sync.job, &pod);
            sync.terminating += 1;
            sync.ready -= i64::from(is_condition_true(pod.lean(), "Ready"));
        }
        sync.active = left;
        all
    }

    /// Creates or deletes Pods until as many are active as the spec of the Job wants (upstream: `manageJob`).
    pub(super) fn manage(&mut self, sync: &mut JobSync) {
        let parallel = number(&sync.spec()["parallelism"], 1).max(0);
        let active = count(sync.active.len());
        let wanted = match sync.spec()["completions"].as_i64() {
            _ if sync.suspended() => 0,
            Some(completions) => parallel.min(completions - sync.succeeded).max(0),
            None if sync.succeeded > 0 => active,
            None => parallel,
        };
        let surplus = self.surplus(sync, (active - wanted).max(0));
        if !surplus.is_empty() {
            for pod in surplus {
                if self.is_interrupted() {
                    return;
                }
                self.remove_finalizer(&pod);
                if let Some(pod) = self.get(SimulatedKind::Pod, &pod.namespace, &pod.name) {
                    self.delete_pod(&sync.job, &pod);
                }
                sync.ready -= i64::from(is_condition_true(pod.lean(), "Ready"));
                sync.active.retain(|one| one.name != pod.name);
            }
            return;
        }
        if sync.suspended() {
            return;
        }
        let waiting = if replaces_failed_only(sync.job.lean()) {
            sync.terminating
        } else {
            0
        };
        let missing = wanted - waiting - active;
        if missing <= 0 {
            return;
        }
        if sync.failed_indexes.is_none() {
            let uid = sync.job.meta("uid");
            let backoff = self.memory.backoffs.get(uid).copied().unwrap_or_default();
            let left = self.remaining_backoff(backoff.failures, backoff.last);
            if !left.is_zero() {
                return self.requeue_after(left);
            }
        }
        let most = usize::try_from(missing).unwrap_or(0);
        let most = most.min(self.write_limit.max(1));
        let indexes = sync.indexed.then(|| self.startable_indexes(sync, most));
        let many = indexes.as_ref().map_or(most, Vec::len);
        for at in 0..many {
            if self.is_interrupted() {
                return;
            }
            let index = indexes.as_ref().and_then(|all| all.get(at).copied());
            let pod = new_pod(sync, index);
            if self.create_pod(&sync.job, pod).is_err() {
                return;
            }
            sync.started += 1;
        }
    }

    /// Returns the active Pods to delete: all with a duplicate or invalid index, and others until there are `many`.
    fn surplus(&self, sync: &JobSync, many: i64) -> Vec<Arc<Stored>> {
        let mut surplus: Vec<Arc<Stored>> = Vec::new();
        if sync.indexed {
            let mut taken = BTreeSet::new();
            for pod in &sync.active {
                let index = index_of(pod.lean()).filter(|index| *index < sync.completions());
                if !index.is_some_and(|index| taken.insert(index)) {
                    surplus.push(Arc::clone(pod));
                }
            }
        }
        let many = usize::try_from(many).unwrap_or(0);
        if surplus.len() < many {
            let names: BTreeSet<Arc<str>> =
                surplus.iter().map(|pod| Arc::clone(&pod.name)).collect();
            let others = self.pods_to_delete(&sync.job, many);
            let others = others.into_iter().filter(|pod| !names.contains(&pod.name));
            surplus.extend(others.take(many - names.len()));
        }
        surplus
    }

    fn startable_indexes(&mut self, sync: &JobSync, most: usize) -> Vec<i64> {
        let only_failed = replaces_failed_only(sync.job.lean());
        let held = sync.pods.iter().filter(|pod| match stage_of(pod.lean()) {
            PodStage::Terminating => only_failed && !is_failed(sync.job.lean(), pod.lean()),
            stage => stage != PodStage::Finished,
        });
        let held: BTreeSet<i64> = held.filter_map(|pod| index_of(pod.lean())).collect();
        let mut taken = sync.completed_indexes.and(&Indexes::of(&held));
        if let Some(failed_indexes) = &sync.failed_indexes {
            taken = taken.and(failed_indexes);
        }
        let free: Vec<i64> = taken.missing(sync.completions()).take(most).collect();
        if sync.failed_indexes.is_none() {
            return free;
        }
        let (mut now, mut soonest) = (Vec::new(), None);
        for index in free {
            let left = sync.kept.get(&index).map_or(Duration::ZERO, |pod| {
                let (counted, ignored) = failures_of(pod.lean());
                let failures = u32::try_from(counted + ignored + 1).unwrap_or(u32::MAX);
                let since = self.facts(pod).map_or(self.now.tick, |facts| facts.since);
                self.remaining_backoff(failures, since)
            });
            if left.is_zero() {
                now.push(index);
            } else {
                soonest = Some(soonest.map_or(left, |known: Duration| known.min(left)));
            }
        }
        if let Some(left) = soonest {
            self.requeue_after(left);
        }
        now
    }

    /// Returns the time left of the delay after `failures` Pod failures, the last at `since` on the simulator's clock.
    fn remaining_backoff(&self, failures: u32, since: Duration) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doubled = 2_u32.saturating_pow((failures - 1).min(16));
        let wait = BACKOFF.saturating_mul(doubled).min(MAX_BACKOFF);
        since.saturating_add(wait).saturating_sub(self.now.tick)
    }

    pub(super) fn remove_finalizer(&mut self, pod: &Stored) {
        self.edit(SimulatedKind::Pod, pod, |pod| {
            let fields = steersman_registry::metadata_of(pod);
            if let Some(list) = fields.get_mut("finalizers").and_then(Value::as_array_mut) {
                list.retain(|one| one != TRACKING);
            }
        });
    }

    /// Removes the Job's finalizer from a Pod if its Job was deleted, because no Job will count the Pod.
    pub(crate) fn remove_finalizer_of_lost_job(&mut self, pod: &Stored) {
        if !self.facts(pod).is_some_and(|facts| facts.tracked) {
            return;
        }
        let job = controller_of(pod.lean()).filter(|own| own.kind == Some(SimulatedKind::Job));
        let lives = job.is_some_and(|own| {
            let job = self.get(SimulatedKind::Job, &pod.namespace, &own.name);
            job.is_some_and(|job| job.meta("uid") == &*own.uid)
        });
        if !lives {
            self.remove_finalizer(pod);
        }
    }
}

/// Builds a Pod of a Job; `index` is its completion index if the Job is indexed.
fn new_pod(sync: &JobSync, index: Option<i64>) -> Value {
    let mut pod = TurnContext::pod_of(&sync.job, &sync.spec()["template"]);
    let fields = steersman_registry::metadata_of(&mut pod);
    track(fields.entry("finalizers").or_insert_with(|| json!([])));
    let Some(index) = index else { return pod };
    number_pod(&mut pod, &sync.job.name, index);
    if sync.failed_indexes.is_some() {
        let before = sync.kept.get(&index);
        let (mut counted, mut ignored) = before.map_or((0, 0), |pod| failures_of(pod.lean()));
        match before.map(|pod| failure_effect(sync.job.lean(), pod)) {
            Some(FailureEffect::Ignored) => ignored += 1,
            Some(_) => counted += 1,
            None => {}
        }
        let annotations = &mut pod["metadata"]["annotations"];
        annotations[FAILURES] = json!(counted.to_string());
        if ignored > 0 {
            annotations[IGNORED] = json!(ignored.to_string());
        }
    }
    pod
}

/// Writes the completion index of a Pod into its name, labels, annotations and environment.
fn number_pod(pod: &mut Value, job: &str, index: i64) {
    let text = index.to_string();
    let fields = steersman_registry::metadata_of(pod);
    let end = format!("-{index}-");
    let room = PREFIX.saturating_sub(end.len());
    let start: String = job.chars().take(room).collect();
    fields.insert("generateName".to_owned(), json!(format!("{start}{end}")));
    for field in ["annotations", "labels"] {
        pod["metadata"][field][INDEX] = json!(text);
    }
    pod["spec"]["hostname"] = json!(format!("{job}-{index}"));
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            if items(&container["env"]).any(|one| one["name"] == INDEX_VARIABLE) {
                continue;
            }
            let variable = json!({
                "name": INDEX_VARIABLE,
                "valueFrom": {"fieldRef": {
                    "fieldPath": format!("metadata.labels['{INDEX}']"),
                }},
            });
            match container.get_mut("env").and_then(Value::as_array_mut) {
                Some(env) => env.push(variable),
                None => container["env"] = json!([variable]),
            }
        }
    }
}
