//! Tests the readiness of objects in tables.

use serde_json::json;

use super::*;

/// The expected readiness, without its text.
#[derive(Debug, PartialEq)]
enum Expected {
    Current,
    InProgress,
    Failed,
}

use Expected::{Current, Failed, InProgress};

fn check(api_version: &str, kind: &str, cases: &[(Value, Expected, &str)]) {
    let gvk = Gvk::from_api_version(api_version, kind);
    for (object, expected, text) in cases {
        let found = Readiness::of_json(&gvk, object);
        let state = match &found {
            Readiness::Current => Current,
            Readiness::InProgress(_) => InProgress,
            Readiness::Failed(_) => Failed,
            Readiness::Terminating => panic!("{object}"),
        };
        assert_eq!(state, *expected, "{object}: {found}");
        assert!(found.to_string().contains(text), "{found} lacks {text:?}");
    }
}

fn with_condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"status": {"conditions": [{"type": type_, "status": status, "reason": reason}]}})
}

#[test]
fn an_object_with_a_deletion_timestamp_is_terminating() {
    let object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for kind in ["Pod", "ConfigMap"] {
        let found = Readiness::of_json(&Gvk::from_api_version("v1", kind), &object);
        assert_eq!(found, Readiness::Terminating);
    }
}

#[test]
fn a_custom_object_is_judged_by_generation_and_conditions() {
    let generations = |generation: i64, observed: i64| {
        json!({
            "metadata": {"generation": generation},
            "status": {"observedGeneration": observed, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    check(
        "example.com/v1",
        "Website",
        &[
            (json!({}), Current, ""),
            (generations(2, 1), InProgress, "generation 2"),
            (generations(2, 2), Current, ""),
            (with_condition("Ready", "True", ""), Current, ""),
            (with_condition("Ready", "False", "Why"), InProgress, "Why"),
            (with_condition("Ready", "Unknown", "Why"), InProgress, "Why"),
            (
                with_condition("Reconciling", "True", "Busy"),
                InProgress,
                "Busy",
            ),
            (with_condition("Reconciling", "False", "Busy"), Current, ""),
            (with_condition("Stalled", "True", "Stuck"), Failed, "Stuck"),
            (with_condition("Other", "False", "Why"), Current, ""),
        ],
    );
}

#[test]
fn a_deployment_is_current_once_its_rollout_has_ended() {
    let of = |total: i64, updated: i64, available: i64, ready: i64| {
        json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 2},
            "status": {
                "observedGeneration": 2, "replicas": total, "updatedReplicas": updated,
                "availableReplicas": available, "readyReplicas": ready,
            },
        })
    };
    let mut deadline = of(2, 2, 2, 2);
    deadline["status"]["conditions"] = json!([
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow"},
    ]);
    let mut unseen = of(2, 2, 2, 2);
    unseen["status"]["observedGeneration"] = json!(1);
    check(
        "apps/v1",
        "Deployment",
        &[
            (json!({"spec": {"replicas": 0}}), InProgress, "not seen"),
            (unseen, InProgress, "generation 2"),
            (of(1, 1, 1, 1), InProgress, "1 of 2 Pods exist"),
            (
                of(2, 1, 2, 2),
                InProgress,
                "1 of 2 Pods have the newest template",
            ),
            (of(3, 2, 3, 3), InProgress, "1 Pods too many"),
            (of(2, 2, 1, 2), InProgress, "1 of 2 Pods are available"),
            (of(2, 2, 2, 1), InProgress, "1 of 2 Pods are ready"),
            (of(2, 2, 2, 2), Current, ""),
            (deadline, Failed, "too slow"),
        ],
    );
}

#[test]
fn a_stateful_set_is_current_once_its_pods_have_the_newest_revision() {
    let of = |spec: Value, ready: i64, updated: i64, revision: &str| {
        json!({
            "spec": spec,
            "status": {
                "observedGeneration": 1, "replicas": 2, "readyReplicas": ready, "updatedReplicas": updated,
                "currentRevision": revision, "updateRevision": "new",
            },
        })
    };
    let two = || json!({"replicas": 2});
    let on_delete = json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
    let partition = |partition: i64| json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
    check(
        "apps/v1",
        "StatefulSet",
        &[
            (json!({"spec": {"replicas": 0}}), InProgress, "not seen"),
            (of(two(), 1, 2, "new"), InProgress, "1 of 2 Pods are ready"),
            (
                of(two(), 2, 1, "old"),
                InProgress,
                "1 of 2 Pods have the newest template",
            ),
            (of(two(), 2, 2, "old"), InProgress, "earlier revision"),
            (of(two(), 2, 2, "new"), Current, ""),
            (
                of(json!({"replicas": 1}), 2, 2, "new"),
                InProgress,
                "too many",
            ),
            (of(on_delete, 0, 0, "old"), Current, ""),
            (of(partition(1), 2, 0, "old"), InProgress, "0 of 1 Pods"),
            (of(partition(1), 2, 1, "old"), Current, ""),
            (of(partition(5), 2, 0, "old"), Current, ""),
        ],
    );
}

#[test]
fn a_daemon_set_is_current_once_every_node_has_a_ready_pod() {
    let of = |scheduled: i64, updated: i64, ready: i64| {
        json!({"status": {
            "observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": scheduled,
            "updatedNumberScheduled": updated, "numberAvailable": ready, "numberReady": ready,
        }})
    };
    let mut on_delete = of(2, 0, 2);
    on_delete["spec"] = json!({"updateStrategy": {"type": "OnDelete"}});
    check(
        "apps/v1",
        "DaemonSet",
        &[
            (json!({}), InProgress, "not seen"),
            (of(1, 1, 1), InProgress, "1 of 2 nodes"),
            (of(2, 1, 2), InProgress, "newest template"),
            (of(2, 2, 1), InProgress, "available"),
            (of(2, 2, 2), Current, ""),
            (on_delete, Current, ""),
        ],
    );
}

#[test]
fn a_replica_set_is_current_once_its_pods_are_ready() {
    let of = |ready: i64| {
        json!({"spec": {"replicas": 2}, "status": {
            "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2,
            "availableReplicas": ready, "readyReplicas": ready,
        }})
    };
    let mut failed = of(0);
    failed["status"]["conditions"] =
        json!([{"type": "ReplicaFailure", "status": "True", "message": "no quota"}]);
    check(
        "apps/v1",
        "ReplicaSet",
        &[
            (of(1), InProgress, "1 of 2"),
            (of(2), Current, ""),
            (failed, Failed, "no quota"),
        ],
    );
}

#[test]
fn a_job_is_current_once_it_is_complete() {
    check(
        "batch/v1",
        "Job",
        &[
            (json!({}), InProgress, "not started"),
            (
                json!({"status": {"startTime": "t", "active": 1}}),
                InProgress,
                "1 are running",
            ),
            (
                with_condition("Suspended", "True", ""),
                InProgress,
                "suspended",
            ),
            (with_condition("Complete", "True", ""), Current, ""),
            (
                with_condition("Failed", "True", "BackoffLimitExceeded"),
                Failed,
                "BackoffLimit",
            ),
        ],
    );
}

#[test]
fn a_pod_is_current_once_it_is_ready_or_has_succeeded() {
    let mut crashing = json!({"status": {"phase": "Running", "containerStatuses": [
        {"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ]}});
    check(
        "v1",
        "Pod",
        &[
            (json!({}), InProgress, "not ready"),
            (json!({"status": {"phase": "Succeeded"}}), Current, ""),
            (
                json!({"status": {"phase": "Failed", "message": "evicted"}}),
                Failed,
                "evicted",
            ),
            (crashing.clone(), Failed, "\"web\""),
            (
                with_condition("PodScheduled", "False", "Unschedulable"),
                InProgress,
                "Unschedulable",
            ),
        ],
    );
    crashing["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    check("v1", "Pod", &[(crashing, Current, "")]);
}

#[test]
fn other_built_in_kinds_have_their_rules() {
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    check(
        "v1",
        "PersistentVolumeClaim",
        &[
            (json!({}), InProgress, "not bound"),
            (phase("Pending"), InProgress, "not bound"),
            (phase("Bound"), Current, ""),
            (phase("Lost"), Failed, "volume"),
        ],
    );
    let balanced = |ip: &str| json!({"spec": {"type": "LoadBalancer", "clusterIP": ip}});
    check(
        "v1",
        "Service",
        &[
            (json!({}), Current, ""),
            (balanced(""), InProgress, "address"),
            (balanced("10.0.0.1"), Current, ""),
        ],
    );
    let healthy = |healthy: i64| json!({"status": {"observedGeneration": 1, "currentHealthy": healthy, "desiredHealthy": 1}});
    check(
        "policy/v1",
        "PodDisruptionBudget",
        &[
            (healthy(0), InProgress, "0 of 1"),
            (healthy(1), Current, ""),
        ],
    );
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[
            (json!({}), InProgress, "not serve"),
            (
                with_condition("NamesAccepted", "False", "Taken"),
                Failed,
                "Taken",
            ),
            (
                with_condition("Established", "False", "Installing"),
                InProgress,
                "not serve",
            ),
            (
                with_condition("Established", "False", "Broken"),
                Failed,
                "Broken",
            ),
            (with_condition("Established", "True", ""), Current, ""),
        ],
    );
    check("v1", "ConfigMap", &[(json!({}), Current, "")]);
}
