//! Words: the rules of a Job about its Pods: failure policy, success policy, and backoff limit per index.

use serde_json::Value;
use steersman_store::Stored;

use super::indexes::Indexes;
use crate::state::facts::{annotation, items, number, text};

/// The annotation with the completion index of a Pod.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation of a Pod with the number of earlier failures of its index that count for `backoffLimitPerIndex`.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation of a Pod with the number of earlier failures of its index that the failure policy ignored.
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// What a Job's failure policy makes of the failure of a Pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureEffect {
    Counts,
    Ignored,
    /// The index of the Pod fails, without further attempts (`FailIndex`).
    EndsIndex,
    /// The Job fails, with this message (`FailJob`).
    EndsJob(String),
}

/// Returns whether a Job replaces a Pod only once the Pod has finished, and not while it terminates.
pub(super) fn replaces_failed_only(job: &Value) -> bool {
    let spec = &job["spec"];
    spec["podReplacementPolicy"] == "Failed" || spec["podFailurePolicy"].is_object()
}

pub(super) fn is_failed(job: &Value, pod: &Value) -> bool {
    let phase = text(&pod["status"], "phase");
    let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
    phase == "Failed" || (deleted && phase != "Succeeded" && !replaces_failed_only(job))
}

/// Returns what the failure policy makes of a failed Pod, by its first rule that matches (`matchPodFailurePolicy`).
pub(super) fn failure_effect(job: &Value, pod: &Stored) -> FailureEffect {
    let rules = items(&job["spec"]["podFailurePolicy"]["rules"]);
    for (at, rule) in rules.enumerate() {
        let action = text(rule, "action");
        let codes = &rule["onExitCodes"];
        let (namespace, name) = (&pod.namespace, &pod.name);
        let why = if codes.is_object() {
            let found = ["containerStatuses", "initContainerStatuses"]
                .into_iter()
                .find_map(|list| matching_exit_code(&pod.lean()["status"][list], codes));
            found.map(|(container, code)| {
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {code} matching {action} rule at index {at}"
                )
            })
        } else {
            let found = has_condition(pod.lean(), &rule["onPodConditions"]);
            found.map(|kind| {
                format!("Pod {namespace}/{name} has condition {kind} matching {action} rule at index {at}")
            })
        };
        let Some(why) = why else { continue };
        match action {
            "Ignore" => return FailureEffect::Ignored,
            "Count" => return FailureEffect::Counts,
            "FailIndex" => return FailureEffect::EndsIndex,
            "FailJob" => return FailureEffect::EndsJob(why),
            _ => {}
        }
    }
    FailureEffect::Counts
}

/// Returns the first failed container with an exit code that the rule matches: its name and the code.
fn matching_exit_code<'a>(statuses: &'a Value, rule: &Value) -> Option<(&'a str, i64)> {
    let mut failed = items(statuses).filter_map(|one| {
        let code = one["state"]["terminated"]["exitCode"].as_i64()?;
        let wanted = rule["containerName"].as_str();
        let meant = wanted.is_none_or(|name| name == text(one, "name"));
        (code != 0 && meant).then(|| (text(one, "name"), code))
    });
    failed.find(|(_, code)| {
        let named = items(&rule["values"]).any(|one| one.as_i64() == Some(*code));
        match text(rule, "operator") {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        }
    })
}

fn has_condition<'a>(pod: &'a Value, patterns: &Value) -> Option<&'a str> {
    let found = items(&pod["status"]["conditions"]).find(|one| {
        let fits = |pattern: &Value| {
            let wanted = pattern["status"].as_str().unwrap_or("True");
            pattern["type"] == one["type"] && one["status"] == wanted
        };
        items(patterns).any(fits)
    });
    found.map(|one| text(one, "type"))
}

/// Returns the message about the first rule of the success policy that is met (`matchSuccessPolicy`).
pub(super) fn success_message(
    job: &Value,
    completions: i64,
    completed_indexes: &Indexes,
) -> Option<String> {
    let rules = job["spec"]["successPolicy"]["rules"].as_array()?;
    if completed_indexes.is_empty() {
        return None;
    }
    let met = rules.iter().position(|rule| {
        let count = rule["succeededCount"].as_i64();
        match rule["succeededIndexes"].as_str() {
            Some(named) => {
                let named = Indexes::parse(named, completions);
                let common = named.common(completed_indexes);
                !named.is_empty()
                    && (common == named.count() || count.is_some_and(|count| common >= count))
            }
            None => count.is_some_and(|count| completed_indexes.count() >= count),
        }
    });
    met.map(|at| format!("Matched rules at index {at}"))
}

pub(super) fn index_of(pod: &Value) -> Option<i64> {
    let index = annotation(pod, INDEX).parse().ok();
    index.filter(|index| *index >= 0)
}

/// Returns how often the index of a Pod failed before this Pod: the failures that count, and the ignored ones.
pub(super) fn failures_of(pod: &Value) -> (i64, i64) {
    let read = |name: &str| -> i64 {
        let count = annotation(pod, name).parse().ok();
        let is_valid = |count: &i64| (0..=i64::from(i32::MAX)).contains(count);
        count.filter(is_valid).unwrap_or(0)
    };
    (read(FAILURES), read(IGNORED))
}

/// Returns whether this Pod's failure makes its index fail for good (upstream: `isIndexFailed`).
pub(super) fn ends_index(job: &Value, pod: &Stored) -> bool {
    let Some(limit) = job["spec"]["backoffLimitPerIndex"].as_i64() else {
        return false;
    };
    is_failed(job, pod.lean())
        && match failure_effect(job, pod) {
            FailureEffect::EndsIndex => true,
            FailureEffect::Ignored => false,
            FailureEffect::Counts | FailureEffect::EndsJob(_) => failures_of(pod.lean()).0 >= limit,
        }
}

/// Returns the sum of the restart counts of a Pod's containers.
pub(super) fn restarts(pod: &Value) -> i64 {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists
        .into_iter()
        .flat_map(|list| items(&pod["status"][list]));
    all.map(|one| number(&one["restartCount"], 0)).sum()
}
