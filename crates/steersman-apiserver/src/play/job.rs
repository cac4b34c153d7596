//! Machine: the Job controller: Pods that end, counted until enough of them ended well.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::store::Stored;

use super::facts::{
    Key, Kind, Stage, TRACKING, annotation, is_tracked, number, stage_of, text, time,
};
use super::pods_of::set_condition;
use super::world::{Part, World};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// How many failures a Job bears where it says nothing.
const BACKOFF_LIMIT: i64 = 6;

/// What is known of a Job at one moment.
#[derive(Default)]
struct Count {
    active: Vec<Arc<Stored>>,
    ready: i64,
    leaving: i64,
    succeeded: i64,
    failed: i64,
    /// Indexes that ended well.
    done: BTreeSet<i64>,
}

impl World<'_> {
    /// Counts what ended, starts what is missing, ends the Job where it is over, and reports.
    pub(super) fn job(&mut self, key: &Key) {
        let Some(job) = self.get(Kind::Job, &key.namespace, &key.name) else {
            return;
        };
        if finished(&job.value).is_some() {
            return self.after_finish(key, &job);
        }
        let manager = text(&job.value["spec"], "managedBy");
        if !matches!(manager, "" | "kubernetes.io/job-controller") {
            return;
        }
        let leaving = !job.meta("deletionTimestamp").is_empty();
        if !leaving && self.claim_pods(key, &job) {
            return;
        }
        let mut count = self.count(&job);
        let verdict = self.verdict(key, &job, &count);
        let suspended = job.value["spec"]["suspend"] == true;
        let pods = Arc::clone(self.kinds.of(Kind::Pod));
        if verdict.is_some() || suspended {
            for pod in std::mem::take(&mut count.active) {
                self.release(&pod);
                if let Some(pod) = self.get(Kind::Pod, &pod.namespace, &pod.name) {
                    self.delete(&pods, &pod, None);
                }
            }
            count.ready = 0;
        } else if !leaving {
            self.start_missing(key, &job, &count);
        }
        self.report_job(&job, &count, verdict, suspended);
        if verdict.is_some() {
            self.later(key.clone(), self.now.tick);
        }
    }

    /// Counts the Pods of a Job; those that ended are let go once they are in the count.
    fn count(&mut self, job: &Stored) -> Count {
        let status = &job.value["status"];
        let indexed = job.value["spec"]["completionMode"] == "Indexed";
        let mut count = Count {
            succeeded: number(&status["succeeded"], 0),
            failed: number(&status["failed"], 0),
            done: parse_indexes(text(status, "completedIndexes")),
            ..Count::default()
        };
        let view = self.view;
        for (place, _) in view.own(job.meta("uid")) {
            let Some(pod) = self.get(Kind::Pod, &place.0, &place.1) else {
                continue;
            };
            let phase = text(&pod.value["status"], "phase");
            let held = is_tracked(&pod.value);
            match stage_of(&pod.value) {
                Stage::Unplaced | Stage::Placed | Stage::Running => {
                    count.ready += i64::from(self.facts(&pod).is_some_and(|facts| facts.ready));
                    count.active.push(pod);
                }
                Stage::Leaving if !matches!(phase, "Succeeded" | "Failed") => {
                    if held && number(&pod.value["metadata"]["deletionGracePeriodSeconds"], 0) == 0
                    {
                        // It was taken away before its end, which counts as a failure.
                        count.failed += 1;
                        self.release(&pod);
                    } else {
                        count.leaving += 1;
                    }
                }
                Stage::Over | Stage::Leaving if held => {
                    let index = annotation(&pod.value, INDEX).parse().ok();
                    if phase == "Failed" {
                        count.failed += 1;
                    } else if let Some(index) = index.filter(|_| indexed) {
                        count.succeeded += i64::from(count.done.insert(index));
                    } else {
                        count.succeeded += 1;
                    }
                    self.release(&pod);
                }
                Stage::Over | Stage::Leaving => {}
            }
        }
        count
    }

    /// Lets go of a Pod that was counted.
    fn release(&mut self, pod: &Stored) {
        self.edit(Kind::Pod, pod, |pod| {
            let fields = crate::registry::metadata_of(pod);
            if let Some(list) = fields.get_mut("finalizers").and_then(Value::as_array_mut) {
                list.retain(|one| one != TRACKING);
            }
        });
    }

    /// Whether the Job is over: its last conditions' type, reason and message.
    fn verdict(&mut self, key: &Key, job: &Stored, count: &Count) -> Option<Verdict> {
        let spec = &job.value["spec"];
        if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
            && let Some(since) = time(&job.value["status"]["startTime"])
        {
            let passed = self.now.wall.as_second().saturating_sub(since.as_second());
            let left = seconds.saturating_sub(passed);
            if left <= 0 {
                return Some(DEADLINE);
            }
            let left = Duration::from_secs(left.unsigned_abs());
            self.later(key.clone(), self.now.tick.saturating_add(left));
        }
        if count.failed > number(&spec["backoffLimit"], BACKOFF_LIMIT) {
            return Some(BACKOFF);
        }
        let enough = match spec["completions"].as_i64() {
            Some(completions) => count.succeeded >= completions,
            // A work queue: it is over when one ended well and none runs.
            None => count.succeeded > 0 && count.active.is_empty() && count.leaving == 0,
        };
        enough.then_some(COMPLETE)
    }

    fn start_missing(&mut self, key: &Key, job: &Stored, count: &Count) {
        let spec = &job.value["spec"];
        let parallel = number(&spec["parallelism"], 1).max(0);
        let active = i64::try_from(count.active.len()).unwrap_or(i64::MAX);
        let wanted = match spec["completions"].as_i64() {
            Some(completions) => parallel.min(completions - count.succeeded),
            None if count.succeeded > 0 => active.min(parallel),
            None => parallel,
        };
        let pods = Arc::clone(self.kinds.of(Kind::Pod));
        if active > wanted {
            let many = usize::try_from(active - wanted).unwrap_or(0);
            for pod in self.victims(job, many) {
                self.release(&pod);
                if let Some(pod) = self.get(Kind::Pod, &pod.namespace, &pod.name) {
                    self.delete(&pods, &pod, None);
                }
            }
            return;
        }
        let indexed = spec["completionMode"] == "Indexed";
        let taken: BTreeSet<i64> = count
            .active
            .iter()
            .filter_map(|pod| annotation(&pod.value, INDEX).parse().ok())
            .collect();
        let all = number(&spec["completions"], 0);
        let mut free =
            (0..all).filter(|index| !taken.contains(index) && !count.done.contains(index));
        for _ in 0..wanted - active {
            if self.spent() {
                return self.again(key);
            }
            let mut pod = Self::pod_of(job, &spec["template"]);
            let fields = crate::registry::metadata_of(&mut pod);
            fields.insert("finalizers".to_owned(), json!([TRACKING]));
            if indexed {
                let Some(index) = free.next() else { return };
                number_pod(&mut pod, &job.name, index);
            }
            if self.create_pod(key, pod).is_err() {
                return;
            }
        }
    }

    fn report_job(
        &mut self,
        job: &Stored,
        count: &Count,
        verdict: Option<Verdict>,
        suspended: bool,
    ) {
        let now = self.wall();
        let old = &job.value["status"];
        let mut conditions = old["conditions"].as_array().cloned().unwrap_or_default();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastProbeTime": now, "lastTransitionTime": now,
            })
        };
        let was = conditions.iter().find(|one| one["type"] == "Suspended");
        let was = was.map(|one| one["status"] == "True");
        if suspended && was != Some(true) {
            set_condition(
                &mut conditions,
                condition("Suspended", "True", "JobSuspended", "Job suspended"),
            );
        } else if !suspended && was == Some(true) {
            set_condition(
                &mut conditions,
                condition("Suspended", "False", "JobResumed", "Job resumed"),
            );
        }
        let mut status = Map::new();
        if let Some(Verdict {
            before,
            kind,
            reason,
            message,
        }) = verdict
        {
            set_condition(&mut conditions, condition(before, "True", reason, message));
            set_condition(&mut conditions, condition(kind, "True", reason, message));
            if kind == "Complete" {
                status.insert("completionTime".to_owned(), json!(now));
            }
        }
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        match old.get("startTime") {
            Some(time) if !suspended => status.insert("startTime".to_owned(), time.clone()),
            None if !suspended => status.insert("startTime".to_owned(), json!(now)),
            _ => None,
        };
        let active = i64::try_from(count.active.len()).unwrap_or(i64::MAX);
        for (field, many) in [
            ("active", active),
            ("succeeded", count.succeeded),
            ("failed", count.failed),
        ] {
            if many > 0 {
                status.insert(field.to_owned(), json!(many));
            }
        }
        status.insert("ready".to_owned(), json!(count.ready));
        status.insert("terminating".to_owned(), json!(count.leaving));
        if !count.done.is_empty() {
            status.insert(
                "completedIndexes".to_owned(),
                json!(write_indexes(&count.done)),
            );
        }
        status.insert("uncountedTerminatedPods".to_owned(), json!({}));
        self.report(Kind::Job, Part::Controllers, job, Value::Object(status));
    }

    /// A finished Job goes when its time is over.
    fn after_finish(&mut self, key: &Key, job: &Stored) {
        let kind = Arc::clone(self.kinds.of(Kind::Pod));
        for pod in self.controlled(&kind, job.meta("uid")) {
            if is_tracked(&pod.value) {
                self.release(&pod);
            }
        }
        let Some(seconds) = job.value["spec"]["ttlSecondsAfterFinished"].as_i64() else {
            return;
        };
        let Some(since) = finished(&job.value) else {
            return;
        };
        let passed = self.now.wall.as_second().saturating_sub(since);
        let left = seconds.saturating_sub(passed);
        if left > 0 {
            let left = Duration::from_secs(left.unsigned_abs());
            return self.later(key.clone(), self.now.tick.saturating_add(left));
        }
        let kind = Arc::clone(self.kinds.of(Kind::Job));
        self.delete(&kind, job, None);
    }
}

/// How a Job ended.
#[derive(Debug, Clone, Copy)]
struct Verdict {
    /// The condition that announces the end.
    before: &'static str,
    kind: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETE: Verdict = Verdict {
    before: "SuccessCriteriaMet",
    kind: "Complete",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const BACKOFF: Verdict = Verdict {
    before: "FailureTarget",
    kind: "Failed",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const DEADLINE: Verdict = Verdict {
    before: "FailureTarget",
    kind: "Failed",
    reason: "DeadlineExceeded",
    message: "Job was active longer than specified deadline",
};

/// When a Job finished, in seconds since the epoch.
fn finished(job: &Value) -> Option<i64> {
    let conditions = job["status"]["conditions"].as_array()?;
    let end = conditions.iter().find(|one| {
        matches!(text(one, "type"), "Complete" | "Failed") && one["status"] == "True"
    })?;
    Some(time(&end["lastTransitionTime"]).map_or(0, jiff::Timestamp::as_second))
}

/// Tells a Pod of an indexed Job its number.
fn number_pod(pod: &mut Value, job: &str, index: i64) {
    let text = index.to_string();
    let fields = crate::registry::metadata_of(pod);
    fields.insert("generateName".to_owned(), json!(format!("{job}-{index}-")));
    for field in ["annotations", "labels"] {
        fields.entry(field).or_insert_with(|| json!({}))[INDEX] = json!(text);
    }
    pod["spec"]["hostname"] = json!(format!("{job}-{index}"));
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let variable = json!({
                "name": "JOB_COMPLETION_INDEX",
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

/// Reads `0,2-4`.
fn parse_indexes(text: &str) -> BTreeSet<i64> {
    /// More than any Job that the player runs; a client may write what it likes.
    const MOST: i64 = 1_000_000;
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            all.extend(first.max(0)..=last.min(MOST));
        }
    }
    all
}

/// Writes `0,2-4`.
fn write_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let write = |(first, last): (i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.into_iter().map(write).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_runs() {
        let all = BTreeSet::from([0, 1, 3, 4, 5, 9]);
        assert_eq!(write_indexes(&all), "0,1,3-5,9");
        assert_eq!(parse_indexes("0,1,3-5,9"), all);
        assert!(parse_indexes("").is_empty());
        assert!(parse_indexes("5-1,x,9999999999999999999").is_empty());
    }
}
