//! Machine: the state of a Job and its Pods in one reconcile, and how the Job ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::indexes::Indexes;
use super::rules::{FailureEffect, ends_index, failure_effect, failures_of, index_of, is_failed};
use crate::actions::turn_context::TurnContext;
use crate::state::facts::{
    SimulatedKind, condition, count, has_ended, is_condition_true, is_tracked, items, number,
    stage_of, text, time,
};

pub(super) struct JobSync {
    pub(super) job: Arc<Stored>,
    /// The Pods of the Job that are not finished, or finished and not counted yet.
    pub(super) pods: Vec<Arc<Stored>>,
    /// The Pods of the Job that are neither finished nor terminating.
    pub(super) active: Vec<Arc<Stored>>,
    pub(super) started: i64,
    pub(super) ready: i64,
    /// The number of Pods of the Job that are terminating and not finished.
    pub(super) terminating: i64,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    pub(super) indexed: bool,
    /// `completedIndexes` in the stored status; the indexes of the Pods that this reconcile counts are not added.
    pub(super) completed_before: Indexes,
    pub(super) completed_indexes: Indexes,
    /// The failed indexes, with those that this reconcile adds; `None` for a Job without `backoffLimitPerIndex`.
    pub(super) failed_indexes: Option<Indexes>,
    /// For each index, the failed Pod that keeps its finalizer until a replacement continues its count of failures.
    pub(super) kept: BTreeMap<i64, Arc<Stored>>,
}

#[derive(Debug, Clone)]
pub(super) struct JobEnd {
    pub(super) succeeded: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl JobEnd {
    pub(super) fn new(succeeded: bool, reason: &str, message: &str) -> Self {
        Self {
            succeeded,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    pub(super) fn failed(reason: &str, message: &str) -> Self {
        Self::new(false, reason, message)
    }

    /// Returns the end of the Job that an earlier reconcile has written into its conditions, if any.
    pub(super) fn announced(job: &Value) -> Option<Self> {
        let found = |kind| condition(job, kind).filter(|one| one["status"] == "True");
        let succeeded = found("SuccessCriteriaMet");
        let end = succeeded.or_else(|| found("FailureTarget"))?;
        let (reason, message) = (text(end, "reason"), text(end, "message"));
        Some(Self::new(succeeded.is_some(), reason, message))
    }
}

impl JobSync {
    pub(super) fn spec(&self) -> &Value {
        &self.job.lean()["spec"]
    }

    pub(super) fn completions(&self) -> i64 {
        number(&self.spec()["completions"], i64::MAX)
    }

    pub(super) fn suspended(&self) -> bool {
        self.spec()["suspend"] == true
    }

    /// Returns whether a Pod may be added to `counted`: it has the finalizer and a valid index, and `counted` lacks it.
    fn is_new(&self, pod: &Stored, counted: &UncountedPods) -> bool {
        is_tracked(pod.lean())
            && !counted.has(pod.meta("uid"))
            && (!self.indexed
                || index_of(pod.lean()).is_some_and(|index| index < self.completions()))
    }
}

/// The uids in `status.uncountedTerminatedPods`: Pods that are finished and still have the finalizer.
#[derive(Debug, Clone, Default)]
pub(super) struct UncountedPods {
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
}

impl UncountedPods {
    pub(super) fn of(job: &Value) -> Self {
        let uncounted = &job["status"]["uncountedTerminatedPods"];
        let read = |field: &str| {
            let uids = items(&uncounted[field]);
            uids.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            succeeded: read("succeeded"),
            failed: read("failed"),
        }
    }

    fn has(&self, uid: &str) -> bool {
        let mut all = self.succeeded.iter().chain(&self.failed);
        all.any(|one| one == uid)
    }

    pub(super) fn written(&self) -> Value {
        let mut written = json!({});
        for (field, uids) in [("succeeded", &self.succeeded), ("failed", &self.failed)] {
            if !uids.is_empty() {
                written[field] = json!(uids);
            }
        }
        written
    }
}

impl TurnContext<'_> {
    pub(super) fn sync(&mut self, job: &Arc<Stored>, counted: &UncountedPods) -> JobSync {
        let cluster = self.cluster;
        let status = &job.lean()["status"];
        let owned = cluster.own(job.meta("uid"));
        let pods = owned
            .filter_map(|((namespace, name), _)| self.get(SimulatedKind::Pod, namespace, name));
        let pods: Vec<Arc<Stored>> = pods.collect();
        let lives = |pod: &&Arc<Stored>| stage_of(pod.lean()).is_active();
        let active: Vec<Arc<Stored>> = pods.iter().filter(lives).cloned().collect();
        let is_ready = |pod: &&Arc<Stored>| is_condition_true(pod.lean(), "Ready");
        let ends = |pod: &&Arc<Stored>| pod.is_terminating() && !has_ended(pod.lean());
        let indexed = job.lean()["spec"]["completionMode"] == "Indexed";
        let mut sync = JobSync {
            ready: count(active.iter().filter(is_ready).count()),
            started: 0,
            terminating: count(pods.iter().filter(ends).count()),
            succeeded: number(&status["succeeded"], 0) + count(counted.succeeded.len()),
            failed: number(&status["failed"], 0) + count(counted.failed.len()),
            completed_before: Indexes::default(),
            completed_indexes: Indexes::default(),
            failed_indexes: None,
            kept: BTreeMap::new(),
            indexed,
            active,
            pods,
            job: Arc::clone(job),
        };
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for pod in sync.pods.iter().filter(|pod| sync.is_new(pod, counted)) {
            if text(&pod.lean()["status"], "phase") == "Succeeded" {
                succeeded.push(pod);
            } else if is_failed(sync.job.lean(), pod.lean())
                && failure_effect(sync.job.lean(), pod) != FailureEffect::Ignored
            {
                failed.push(pod);
            }
        }
        let uid = sync.job.meta("uid").into();
        let backoff = self.memory.backoffs.entry(uid).or_default();
        if !succeeded.is_empty() {
            backoff.failures = 0;
        }
        if !failed.is_empty() {
            let more = u32::try_from(failed.len()).unwrap_or(u32::MAX);
            backoff.failures = backoff.failures.saturating_add(more);
            backoff.last = self.now.tick;
        }
        let (succeeded, failed) = (count(succeeded.len()), count(failed.len()));
        sync.succeeded += succeeded;
        sync.failed += failed;
        if indexed {
            number_indexes(&mut sync);
        }
        sync
    }
}

/// Computes the succeeded and failed indexes from the stored status and from the Pods that are not counted yet.
fn number_indexes(sync: &mut JobSync) {
    let (job, completions) = (Arc::clone(&sync.job), sync.completions());
    let own = |pod: &Stored| {
        let index = index_of(pod.lean()).filter(|index| *index < completions);
        index.filter(|_| is_tracked(pod.lean()))
    };
    let status = &job.lean()["status"];
    let ended = |fits: &dyn Fn(&Stored) -> bool| {
        let fitting = sync.pods.iter().filter(|pod| fits(pod));
        let indexes: BTreeSet<i64> = fitting.filter_map(|pod| own(pod)).collect();
        Indexes::of(&indexes)
    };
    let before = Indexes::parse(text(status, "completedIndexes"), completions);
    let has_succeeded = |pod: &Stored| text(&pod.lean()["status"], "phase") == "Succeeded";
    let completed_indexes = before.and(&ended(&has_succeeded));
    let limit = &job.lean()["spec"]["backoffLimitPerIndex"];
    let failed_indexes = limit.is_number().then(|| {
        let before = Indexes::parse(text(status, "failedIndexes"), completions);
        before.and(&ended(&|pod| ends_index(job.lean(), pod)))
    });
    let mut kept: BTreeMap<i64, Arc<Stored>> = BTreeMap::new();
    if let Some(failed_indexes) = &failed_indexes {
        let busy = sync.active.iter().filter_map(|pod| index_of(pod.lean()));
        let busy: BTreeSet<i64> = busy.collect();
        let rank = |pod: &Stored| {
            let (counted, ignored) = failures_of(pod.lean());
            counted + ignored
        };
        for pod in &sync.pods {
            if let Some(index) = own(pod)
                && is_failed(job.lean(), pod.lean())
                && !completed_indexes.has(index)
                && !failed_indexes.has(index)
                && !busy.contains(&index)
                && kept
                    .get(&index)
                    .is_none_or(|known| rank(known) <= rank(pod))
            {
                kept.insert(index, Arc::clone(pod));
            }
        }
    }
    sync.succeeded = completed_indexes.count();
    sync.completed_before = before;
    sync.completed_indexes = completed_indexes;
    sync.failed_indexes = failed_indexes;
    sync.kept = kept;
}

/// Returns when a Job finished, in seconds since the epoch; `None` for a Job that has not finished.
pub(crate) fn finished(job: &Value) -> Option<i64> {
    let end = items(&job["status"]["conditions"]).find(|one| {
        matches!(text(one, "type"), "Complete" | "Failed") && one["status"] == "True"
    })?;
    Some(time(&end["lastTransitionTime"]).map_or(0, jiff::Timestamp::as_second))
}
