//! Words: how a Job judges its Pods: its failure policy, its success policy, what counts as failed.

use serde_json::Value;
use steersman_registry::store::Stored;

use super::indexes::Indexes;
use crate::facts::{annotation, number, text};

/// The index of a Pod of an indexed Job.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often its index failed before, as far as failures count.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often its index failed before without counting.
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// What a failure policy makes of a failed Pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The failure counts.
    Counts,
    /// It does not.
    Ignored,
    /// It ends the index of the Pod.
    EndsIndex,
    /// It ends the Job, with this message.
    EndsJob(String),
}

/// Whether only Pods that ended are replaced, and not those that are about to.
pub(super) fn replaces_failed_only(job: &Value) -> bool {
    let spec = &job["spec"];
    spec["podReplacementPolicy"] == "Failed" || spec["podFailurePolicy"].is_object()
}

/// Whether a Pod counts as failed.
pub(super) fn is_failed(job: &Value, pod: &Value) -> bool {
    let phase = text(&pod["status"], "phase");
    let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
    phase == "Failed" || (deleted && phase != "Succeeded" && !replaces_failed_only(job))
}

/// What the failure policy of a Job makes of a failed Pod.
///
/// Upstream: `matchPodFailurePolicy`.
pub(super) fn judge(job: &Value, pod: &Stored) -> Judgement {
    let rules = job["spec"]["podFailurePolicy"]["rules"].as_array();
    for (at, rule) in rules.into_iter().flatten().enumerate() {
        let action = text(rule, "action");
        let codes = &rule["onExitCodes"];
        let (namespace, name) = (&pod.namespace, &pod.name);
        let why = if codes.is_object() {
            let found = ["containerStatuses", "initContainerStatuses"]
                .into_iter()
                .find_map(|list| ended_so(&pod.lean()["status"][list], codes));
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
            "Ignore" => return Judgement::Ignored,
            "Count" => return Judgement::Counts,
            "FailIndex" => return Judgement::EndsIndex,
            "FailJob" => return Judgement::EndsJob(why),
            _ => {}
        }
    }
    Judgement::Counts
}

/// The first container that failed with a code that a rule speaks of.
fn ended_so<'a>(statuses: &'a Value, rule: &Value) -> Option<(&'a str, i64)> {
    let all = statuses.as_array()?.iter();
    let mut failed = all.filter_map(|one| {
        let code = one["state"]["terminated"]["exitCode"].as_i64()?;
        let meant = rule["containerName"]
            .as_str()
            .is_none_or(|name| name == text(one, "name"));
        (code != 0 && meant).then(|| (text(one, "name"), code))
    });
    failed.find(|(_, code)| {
        let named = rule["values"].as_array();
        let named = named.is_some_and(|list| list.iter().any(|one| one.as_i64() == Some(*code)));
        match text(rule, "operator") {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        }
    })
}

fn has_condition<'a>(pod: &'a Value, patterns: &Value) -> Option<&'a str> {
    let patterns = patterns.as_array()?;
    let mut all = pod["status"]["conditions"].as_array()?.iter();
    let found = all.find(|one| {
        let fits = |pattern: &Value| {
            let wanted = pattern["status"].as_str().unwrap_or("True");
            pattern["type"] == one["type"] && one["status"] == wanted
        };
        patterns.iter().any(fits)
    });
    found.map(|one| text(one, "type"))
}

/// Which rule of its success policy an indexed Job meets.
///
/// Upstream: `matchSuccessPolicy`.
pub(super) fn success(job: &Value, completions: i64, done: &Indexes) -> Option<String> {
    let rules = job["spec"]["successPolicy"]["rules"].as_array()?;
    if done.is_empty() {
        return None;
    }
    let met = rules.iter().position(|rule| {
        let count = rule["succeededCount"].as_i64();
        match rule["succeededIndexes"].as_str() {
            Some(named) => {
                let named = Indexes::parse(named, completions);
                let common = named.common(done);
                !named.is_empty()
                    && (common == named.count() || count.is_some_and(|count| common >= count))
            }
            None => count.is_some_and(|count| done.count() >= count),
        }
    });
    met.map(|at| format!("Matched rules at index {at}"))
}

/// The index of a Pod.
pub(super) fn index_of(pod: &Value) -> Option<i64> {
    let index = annotation(pod, INDEX).parse().ok();
    index.filter(|index| *index >= 0)
}

/// How often the index of a Pod failed before: as far as it counts, and without counting.
pub(super) fn failures_of(pod: &Value) -> (i64, i64) {
    let read = |name: &str| -> i64 {
        let count: i64 = annotation(pod, name).parse().unwrap_or(0);
        if (0..=i64::from(i32::MAX)).contains(&count) {
            count
        } else {
            0
        }
    };
    (read(FAILURES), read(IGNORED))
}

/// Whether a Pod is the last that its index bears.
///
/// Upstream: `isIndexFailed`.
pub(super) fn ends_index(job: &Value, pod: &Stored) -> bool {
    let Some(limit) = job["spec"]["backoffLimitPerIndex"].as_i64() else {
        return false;
    };
    is_failed(job, pod.lean())
        && match judge(job, pod) {
            Judgement::EndsIndex => true,
            Judgement::Ignored => false,
            Judgement::Counts | Judgement::EndsJob(_) => failures_of(pod.lean()).0 >= limit,
        }
}

/// How often containers of living Pods that are restarted in place were restarted.
pub(super) fn restarts(pod: &Value) -> i64 {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    all.map(|one| number(&one["restartCount"], 0)).sum()
}
