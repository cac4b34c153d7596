//! Tests of PodDisruptionBudgets and of volumes.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{PodFailure, Speed};

use crate::support::Watch;

use super::{complete, condition, deployment, names, pod_spec, server, status, until, workload};

fn budget(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": spec,
    })
}

fn numbers(server: &ApiServer) -> [i64; 4] {
    let found = status(server, "poddisruptionbudgets.policy", "web");
    let fields = [
        "expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed",
    ];
    fields.map(|field| found[field].as_i64().unwrap_or(-1))
}

#[tokio::test(start_paused = true)]
async fn a_budget_reports_the_allowed_disruptions() {
    let server = server(Speed::brisk());
    server.create(deployment("web", 4)).unwrap();
    server
        .create(budget(&json!({"maxUnavailable": "25%"})))
        .unwrap();
    until(&server, "all healthy", |server| {
        numbers(server) == [4, 3, 4, 1]
    })
    .await;
    let found = status(&server, "poddisruptionbudgets.policy", "web");
    let allowed = condition(&found, "DisruptionAllowed");
    assert_eq!(
        (&allowed["status"], &allowed["reason"]),
        (&json!("True"), &json!("SufficientPods"))
    );
    assert_eq!(found["observedGeneration"], 1);

    let bad = server
        .simulator()
        .fail_pods("", "app=web", PodFailure::NeverReady)
        .unwrap();
    until(&server, "none healthy", |server| {
        numbers(server) == [4, 3, 0, 0]
    })
    .await;
    let found = status(&server, "poddisruptionbudgets.policy", "web");
    assert_eq!(
        condition(&found, "DisruptionAllowed")["reason"],
        "InsufficientPods"
    );
    drop(bad);
    until(&server, "healthy again", |server| {
        numbers(server) == [4, 3, 4, 1]
    })
    .await;

    let scaled = json!({"spec": {"replicas": 8}});
    server
        .merge_patch("deployments.apps", "default", "web", &scaled)
        .unwrap();
    until(&server, "more", |server| numbers(server) == [8, 6, 8, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_and_pods_wait_for_them() {
    let server = server(Speed::brisk());
    let mut spec = pod_spec("web:1");
    spec["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    server
        .create(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "early"}, "spec": spec}),
        )
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let waits = condition(&status(&server, "pods", "early"), "PodScheduled");
    assert_eq!(
        waits["message"],
        "0/1 nodes are available: persistentvolumeclaim \"data\" not found."
    );
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    server
        .create(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": claim,
        }))
        .unwrap();
    until(&server, "running", |server| {
        status(server, "pods", "early")["phase"] == "Running"
    })
    .await;
    let found = server
        .get("persistentvolumeclaims", "default", "data")
        .unwrap();
    assert_eq!(found["status"]["phase"], "Bound");
    assert_eq!(found["status"]["capacity"]["storage"], "1Gi");
    let volume = format!("pvc-{}", found["metadata"]["uid"].as_str().unwrap());
    assert_eq!(found["spec"]["volumeName"], *volume);
    let made = server.get("persistentvolumes", "", &volume).unwrap();
    assert_eq!(made["status"]["phase"], "Bound");
    assert_eq!(made["spec"]["claimRef"]["name"], "data");
    server
        .delete("persistentvolumeclaims", "default", "data")
        .unwrap();
    until(&server, "the volume gone", |server| {
        server.list("persistentvolumes", "").is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_an_existing_volume_or_one_of_its_class() {
    let server = server(Speed::brisk());
    server
        .create(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "",
                "hostPath": {"path": "/disk"},
            },
        }))
        .unwrap();
    let claim = |name: &str, class: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    server.create(claim("by-hand", "")).unwrap();
    server.create(claim("unknown", "gold")).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let found = server
        .get("persistentvolumeclaims", "default", "by-hand")
        .unwrap();
    assert_eq!(found["spec"]["volumeName"], "disk");
    assert_eq!(found["status"]["capacity"]["storage"], "5Gi");
    assert_eq!(
        status(&server, "persistentvolumeclaims", "unknown")["phase"],
        "Pending"
    );
    server
        .delete("persistentvolumeclaims", "default", "by-hand")
        .unwrap();
    until(&server, "released", |server| {
        server.get("persistentvolumes", "", "disk").unwrap()["status"]["phase"] == "Released"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_runs_on_bound_claims() {
    let server = server(Speed::brisk());
    let spec = json!({"replicas": 2, "serviceName": "db", "volumeClaimTemplates": [{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]});
    server.create(workload("StatefulSet", "db", &spec)).unwrap();
    until(&server, "ready", |server| {
        status(server, "statefulsets.apps", "db")["readyReplicas"] == 2
    })
    .await;
    for claim in server.list("persistentvolumeclaims", "default") {
        assert_eq!(claim["status"]["phase"], "Bound");
    }
    assert_eq!(names(&server.list("persistentvolumes", "")).len(), 2);
    server.create(deployment("web", 1)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 1)).await;
}

/// PLAY-9
#[tokio::test(start_paused = true)]
async fn a_stopped_pod_is_reported_as_ended_before_it_is_gone() {
    let server = server(Speed::brisk());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec("web:1"),
    });
    server.create(pod).unwrap();
    until(&server, "running", |server| {
        status(server, "pods", "p")["phase"] == "Running"
    })
    .await;
    let since = server.revision();
    let path = format!("/api/v1/namespaces/default/pods?watch=1&resourceVersion={since}");
    let mut watch = Watch::open(&server, &path).await;
    server.delete("pods", "default", "p").unwrap();
    let mut seen: Vec<String> = Vec::new();
    while seen.last().is_none_or(|last| !last.starts_with("DELETED")) {
        let event = watch.next().await.unwrap();
        let status = &event["object"]["status"];
        let ready = &condition(status, "Ready")["status"];
        let [kind, phase, ready] = [&event["type"], &status["phase"], ready]
            .map(|value| value.as_str().unwrap_or_default());
        seen.push(format!("{kind} {phase} {ready}"));
    }
    seen.dedup();
    let wanted = [
        "MODIFIED Running True", "MODIFIED Failed False", "DELETED Failed False",
    ];
    assert_eq!(seen, wanted);
}

#[tokio::test(start_paused = true)]
async fn a_played_node_says_what_it_runs() {
    let server = server(Speed::brisk());
    until(&server, "a node", |server| {
        server.get("nodes", "", "node-1").is_some()
    })
    .await;
    let node = server.get("nodes", "", "node-1").unwrap();
    let (labels, info) = (&node["metadata"]["labels"], &node["status"]["nodeInfo"]);
    assert_eq!(info["operatingSystem"], labels["kubernetes.io/os"]);
    assert_eq!(info["architecture"], labels["kubernetes.io/arch"]);
    for field in [
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
    ] {
        assert_ne!(info[field], "", "{field}");
    }
    assert_eq!(info["kubeletVersion"], "v1.36.0");
    assert_eq!(info["containerRuntimeVersion"], "containerd://2.2.0");
}
