//! Machine: the Job controller, which runs Pods until enough of them have succeeded.
//!
//! Upstream: `pkg/controller/job`.

mod indexes;
mod rules;
mod sync;
mod pods;
mod track;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_store::Stored;

use indexes::Indexes;
use rules::{FailureEffect, failure_effect, is_failed, restarts, success_message};

pub(crate) use sync::finished;
use sync::{JobEnd, JobSync, UncountedPods};
use track::put_condition;

use crate::actions::turn_context::TurnContext;
use crate::state::facts::{SimulatedKind, is_condition_true, number, text, time};

/// The default of `spec.backoffLimit`: a Job fails after more Pod failures than this.
const BACKOFF_LIMIT: i64 = 6;
impl TurnContext<'_> {
    /// Counts the finished Pods, creates missing ones, and writes the status; ends the Job if it is over.
    pub(crate) fn reconcile_job(&mut self, job: &Arc<Stored>) {
        let manager = text(&job.lean()["spec"], "managedBy");
        if !matches!(manager, "" | "kubernetes.io/job-controller") {
            return;
        }
        if finished(job.lean()).is_some() {
            return self.after_finish(job);
        }
        let terminating = job.is_terminating();
        if !terminating && self.claim_pods(job) {
            return;
        }
        let counted = UncountedPods::of(job.lean());
        let mut sync = self.sync(job, &counted);
        let mut status = job.lean()["status"].clone();
        if status["startTime"].is_null() && !sync.suspended() {
            status["startTime"] = json!(self.wall());
        }
        let mut end = self.job_end(&sync);
        if end.is_some() {
            if !self.stop_active(&mut sync) {
                // The Job is not over before all its active Pods are deleted.
                end = None;
            }
        } else {
            if !terminating {
                self.manage(&mut sync);
            }
            let over = sync.active.is_empty() && sync.started == 0;
            if over && sync.succeeded >= sync.spec()["completions"].as_i64().unwrap_or(1) {
                let message = "Reached expected number of succeeded pods";
                end = Some(JobEnd::new(true, "CompletionsReached", message));
            } else if !terminating {
                self.note_suspension(&sync, &mut status);
            }
        }
        self.write_job_status(&sync, (status, counted), end);
    }

    /// Returns how the Job ends, if it is over or an earlier reconcile announced its end; `None` if the Job goes on.
    fn job_end(&mut self, sync: &JobSync) -> Option<JobEnd> {
        let (job, spec) = (sync.job.lean(), sync.spec());
        if let Some(end) = JobEnd::announced(job) {
            return Some(end);
        }
        if spec["podFailurePolicy"].is_object() {
            let failed = sync.pods.iter().filter(|pod| is_failed(job, pod.lean()));
            for pod in failed {
                if let FailureEffect::EndsJob(message) = failure_effect(job, pod) {
                    return Some(JobEnd::failed("PodFailurePolicy", &message));
                }
            }
        }
        let limit = number(&spec["backoffLimit"], BACKOFF_LIMIT);
        let in_place = spec["template"]["spec"]["restartPolicy"] == "OnFailure" && {
            let restarted: i64 = sync.active.iter().map(|pod| restarts(pod.lean())).sum();
            restarted > 0 && restarted >= limit
        };
        if sync.failed > limit || in_place {
            let message = "Job has reached the specified backoff limit";
            return Some(JobEnd::failed("BackoffLimitExceeded", message));
        }
        if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
            && let Some(since) = time(&job["status"]["startTime"])
            && !sync.suspended()
            // A suspended Job does not use up its deadline: it gets a new start time when it resumes.
            && !is_condition_true(job, "Suspended")
        {
            let left = seconds.saturating_sub(self.seconds_since(since));
            if left <= 0 {
                let message = "Job was active longer than specified deadline";
                return Some(JobEnd::failed("DeadlineExceeded", message));
            }
            self.requeue_after(Duration::from_secs(left.unsigned_abs()));
        }
        if let Some(failed_indexes) = sync.failed_indexes.as_ref().map(Indexes::count) {
            let most = spec["maxFailedIndexes"].as_i64();
            if most.is_some_and(|most| failed_indexes > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return Some(JobEnd::failed("MaxFailedIndexesExceeded", message));
            }
            if failed_indexes > 0
                && failed_indexes + sync.completed_indexes.count() >= sync.completions()
            {
                return Some(JobEnd::failed("FailedIndexes", "Job has failed indexes"));
            }
        }
        let met = success_message(job, sync.completions(), &sync.completed_indexes)
            .filter(|_| sync.indexed)?;
        Some(JobEnd::new(true, "SuccessPolicy", &met))
    }

    fn note_suspension(&mut self, sync: &JobSync, status: &mut Value) {
        let was = is_condition_true(sync.job.lean(), "Suspended");
        let (holds, reason, message) = match (sync.suspended(), was) {
            (true, false) => ("True", "Suspended", "Job suspended"),
            (false, true) => ("False", "Resumed", "Job resumed"),
            _ => return,
        };
        let why = format!("Job{reason}");
        put_condition(status, ("Suspended", holds), (&why, message), &self.wall());
        if !sync.suspended() {
            // A Job that resumes gets a new start time, because its deadline does not run while it is suspended.
            status["startTime"] = json!(self.wall());
        }
        self.report(&sync.job, reason, message);
    }

    /// Removes the finalizers of a finished Job's Pods, and deletes the Job once `ttlSecondsAfterFinished` is over.
    fn after_finish(&mut self, job: &Stored) {
        self.memory.backoffs.remove(job.meta("uid"));
        let cluster = self.cluster;
        for ((namespace, name), facts) in cluster.own(job.meta("uid")) {
            let pod = self.get(SimulatedKind::Pod, namespace, name);
            if let Some(pod) = pod.filter(|_| facts.tracked) {
                if self.is_interrupted() {
                    return;
                }
                self.remove_finalizer(&pod);
            }
        }
        let Some(seconds) = job.lean()["spec"]["ttlSecondsAfterFinished"].as_i64() else {
            return;
        };
        let Some(since) = finished(job.lean()) else {
            return;
        };
        let passed = self.now.wall.as_second().saturating_sub(since);
        let left = seconds.saturating_sub(passed);
        if left > 0 {
            return self.requeue_after(Duration::from_secs(left.unsigned_abs()));
        }
        self.delete(self.kinds.of(SimulatedKind::Job), job, None);
    }
}
