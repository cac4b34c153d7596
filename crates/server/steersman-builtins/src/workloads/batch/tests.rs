//! Defaults and validation of Jobs and CronJobs.

use serde_json::{Value, json};

use super::*;
use crate::tests::error_texts;

fn job_of(spec: &Value) -> Value {
    let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    (JOB.defaults)(&mut job);
    (JOB.prepare)(&mut job, None);
    job
}

#[test]
fn a_job_selects_its_pods_by_its_uid() {
    let job = job_of(&json!({}));
    assert_eq!(error_texts(crate::validate(&JOB, &job, None)), [""; 0]);
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    assert_eq!(job["metadata"]["labels"]["job-name"], "j");
    let own = job_of(&json!({"selector": {"matchLabels": {"a": "b"}}}));
    let found = error_texts(crate::validate(&JOB, &own, None));
    assert!(
        found[0].contains("`selector` not auto-generated"),
        "{found:?}"
    );
}

#[test]
fn invalid_specs_are_refused_with_upstream_messages() {
    for (spec, why) in [
        (
            json!({"completionMode": "Indexed"}),
            "spec.completions Required value: when completion mode is Indexed",
        ),
        (
            json!({"backoffLimitPerIndex": 1}),
            "spec.backoffLimitPerIndex Invalid value: 1: requires indexed completion mode",
        ),
        (
            json!({"podFailurePolicy": {"rules": [{"action": "FailJob"}]}}),
            "spec.podFailurePolicy.rules[0] Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            json!({"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [0, 2]}}]}}),
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0] Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            json!({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "0-1,9"}]}}),
            "spec.successPolicy.rules[0].succeededIndexes Invalid value: \"0-1,9\": error parsing succeededIndexes: too large index: \"9\"",
        ),
        (
            json!({"managedBy": "acme"}),
            "spec.managedBy Invalid value: \"acme\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
    ] {
        let mut spec = spec;
        if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
            spec["parallelism"] = json!(2);
        }
        assert_eq!(
            error_texts(crate::validate(&JOB, &job_of(&spec), None)),
            [why]
        );
    }
}

#[test]
fn the_work_of_a_job_is_immutable() {
    let old = job_of(&json!({}));
    let change = |field: &str, value: Value| {
        let mut new = old.clone();
        new["spec"][field] = value;
        error_texts(crate::validate(&JOB, &new, Some(&old)))
    };
    assert_eq!(change("parallelism", json!(3)), [""; 0]);
    assert_eq!(
        change("completions", json!(3)),
        ["spec.completions Invalid value: 3: field is immutable"]
    );
    let mut suspended = job_of(&json!({"suspend": true}));
    let mut moved = suspended.clone();
    moved["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
    moved["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1"}});
    assert_eq!(
        error_texts(crate::validate(&JOB, &moved, Some(&suspended))),
        [""; 0]
    );
    suspended["spec"]["suspend"] = json!(false);
    assert_eq!(
        error_texts(crate::validate(&JOB, &moved, Some(&suspended))).len(),
        1
    );
}

#[test]
fn the_conditions_of_a_finished_job_are_consistent() {
    let with = |status: Value| {
        let mut job = job_of(&json!({}));
        job["status"] = status;
        job
    };
    let is = |kind: &str| json!({"type": kind, "status": "True"});
    let running = with(json!({"active": 1, "startTime": "2026-01-01T00:00:00Z"}));
    let done = with(json!({"startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1,
        "conditions": [is("SuccessCriteriaMet"), is("Complete")]}));
    assert_eq!(
        error_texts(crate::validate_status(&JOB, &done, &running)),
        [""; 0]
    );
    let mut owing = done;
    owing["status"]["uncountedTerminatedPods"] = json!({"succeeded": ["u"]});
    assert_eq!(
        error_texts(crate::validate_status(&JOB, &owing, &running)),
        [
            "status.uncountedTerminatedPods Invalid value: {\"Succeeded\":[\"u\"],\"Failed\":null}: uncountedTerminatedPods needs to be empty for finished job"
        ]
    );
    let early = with(json!({"active": 1, "conditions": [is("Complete")]}));
    let found = error_texts(crate::validate_status(&JOB, &early, &with(json!({}))));
    let fields: Vec<_> = found
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "status.completionTime", "status.conditions", "status.active", "status.startTime"
        ]
    );
}

#[test]
fn schedules_and_time_zones_of_cron_jobs_are_validated() {
    let error_texts = |spec: Value| {
        let mut object = json!({"metadata": {"name": "c"}, "spec": {"schedule": "@hourly",
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}}}});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        (CRON_JOB.defaults)(&mut object);
        error_texts(crate::validate(&CRON_JOB, &object, None))
    };
    assert_eq!(error_texts(json!({"timeZone": "Europe/Berlin"})), [""; 0]);
    for (spec, why) in [
        (
            json!({"timeZone": "europe/berlin"}),
            "spec.timeZone Invalid value: \"europe/berlin\": unknown time zone europe/berlin",
        ),
        (
            json!({"schedule": "TZ=UTC @hourly"}),
            "spec.schedule Invalid value: \"TZ=UTC @hourly\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ),
        (
            json!({"failedJobsHistoryLimit": -1}),
            "spec.failedJobsHistoryLimit Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        assert_eq!(error_texts(spec), [why]);
    }
}
