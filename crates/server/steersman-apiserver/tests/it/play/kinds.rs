//! Tests of StatefulSets, DaemonSets, Jobs, and the endpoints of Services.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{Played, PodFailure, Speed};

use super::{condition, deployment, names, pod_spec, server, status, until, workload};

fn job(name: &str, spec: &Value) -> Value {
    let mut job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    let mut pod = pod_spec("work:1");
    pod["restartPolicy"] = json!("Never");
    job["spec"]["template"] = json!({"spec": pod});
    job
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_creates_and_deletes_pods_by_ordinal() {
    let server = server(Speed::brisk());
    let spec = json!({"replicas": 3, "serviceName": "db", "volumeClaimTemplates": [{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]});
    server.create(workload("StatefulSet", "db", &spec)).unwrap();
    tokio::time::sleep(Duration::from_millis(90)).await;
    assert_eq!(
        names(&server.list("pods", "default")),
        ["db-0"],
        "one after the other"
    );
    let done = |server: &ApiServer| {
        let status = status(server, "statefulsets.apps", "db");
        status["readyReplicas"] == 3
            && status["updatedReplicas"] == 3
            && status["currentRevision"] == status["updateRevision"]
    };
    until(&server, "complete", done).await;
    assert_eq!(
        names(&server.list("pods", "default")),
        ["db-0", "db-1", "db-2"]
    );
    assert_eq!(
        names(&server.list("persistentvolumeclaims", "default")),
        ["data-db-0", "data-db-1", "data-db-2"]
    );
    let pod = server.get("pods", "default", "db-1").unwrap();
    assert_eq!(
        pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"],
        "1"
    );
    assert_eq!(pod["spec"]["subdomain"], "db");
    let old = pod["metadata"]["labels"]["controller-revision-hash"].clone();
    let patch = json!({"spec": {"template": {"spec": pod_spec("web:2")}}});
    server
        .merge_patch("statefulsets.apps", "default", "db", &patch)
        .unwrap();
    until(&server, "the rollout", |server| {
        let pod = server.get("pods", "default", "db-0").unwrap_or_default();
        done(server) && pod["spec"]["containers"][0]["image"] == "web:2"
    })
    .await;
    let pod = server.get("pods", "default", "db-1").unwrap();
    assert_ne!(pod["metadata"]["labels"]["controller-revision-hash"], old);
    assert_eq!(server.list("controllerrevisions.apps", "default").len(), 2);
    let patch = json!({"spec": {"replicas": 1}});
    server
        .merge_patch("statefulsets.apps", "default", "db", &patch)
        .unwrap();
    until(&server, "smaller", |server| {
        names(&server.list("pods", "default")) == ["db-0"]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_serves_every_node() {
    let played = Played::everything().nodes(3);
    let server = ApiServer::builder().play(played).build();
    server
        .create(workload("DaemonSet", "agent", &json!({})))
        .unwrap();
    let ready =
        |server: &ApiServer| status(server, "daemonsets.apps", "agent")["numberReady"].clone();
    until(&server, "ready", |server| ready(server) == 3).await;
    let mut nodes: Vec<Value> = Vec::new();
    for pod in server.list("pods", "default") {
        nodes.push(pod["spec"]["nodeName"].clone());
    }
    nodes.sort_by_key(Value::to_string);
    assert_eq!(json!(nodes), json!(["node-1", "node-2", "node-3"]));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}});
    server.create(node).unwrap();
    let patch = json!({"spec": {"taints": null}});
    server.merge_patch("nodes", "", "late", &patch).unwrap();
    until(&server, "the fourth", |server| ready(server) == 4).await;
    server.delete("nodes", "", "late").unwrap();
    until(&server, "three again", |server| {
        ready(server) == 3 && server.list("pods", "default").len() == 3
    })
    .await;
    let patch = json!({"spec": {"template": {"spec": pod_spec("web:2")}}});
    server
        .merge_patch("daemonsets.apps", "default", "agent", &patch)
        .unwrap();
    until(&server, "the rollout", |server| {
        let status = status(server, "daemonsets.apps", "agent");
        status["updatedNumberScheduled"] == 3 && status["numberAvailable"] == 3
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn jobs_complete_fail_and_expire() {
    let server = server(Speed::brisk());
    let spec = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
    server.create(job("indexed", &spec)).unwrap();
    let finished = |name: &'static str, kind: &'static str| {
        move |server: &ApiServer| {
            condition(&status(server, "jobs.batch", name), kind)["status"] == "True"
        }
    };
    until(&server, "complete", finished("indexed", "Complete")).await;
    let done = status(&server, "jobs.batch", "indexed");
    assert_eq!(done["succeeded"], 5);
    assert_eq!(done["completedIndexes"], "0-4");
    assert!(done["completionTime"].is_string());
    assert!(done.get("active").is_none());
    let pods = server.list("pods", "default");
    assert_eq!(pods.len(), 5);
    assert!(
        pods.iter()
            .all(|pod| pod["metadata"].get("finalizers").is_none())
    );

    let failure = server
        .simulator()
        .fail_pods("", "job-name=broken", PodFailure::Failed)
        .unwrap();
    server
        .create(job("broken", &json!({"backoffLimit": 2})))
        .unwrap();
    until(&server, "failed", finished("broken", "Failed")).await;
    let failed = status(&server, "jobs.batch", "broken");
    assert_eq!(failed["failed"], 3);
    assert_eq!(
        condition(&failed, "Failed")["reason"],
        "BackoffLimitExceeded"
    );
    drop(failure);

    server
        .create(job("brief", &json!({"ttlSecondsAfterFinished": 10})))
        .unwrap();
    until(&server, "complete", finished("brief", "Complete")).await;
    until(&server, "gone", |server| {
        server.get("jobs.batch", "default", "brief").is_none()
    })
    .await;

    server
        .create(job("later", &json!({"suspend": true})))
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        condition(&status(&server, "jobs.batch", "later"), "Suspended")["status"],
        "True"
    );
    let patch = json!({"spec": {"suspend": false}});
    server
        .merge_patch("jobs.batch", "default", "later", &patch)
        .unwrap();
    until(&server, "complete", finished("later", "Complete")).await;
}

#[tokio::test(start_paused = true)]
async fn services_get_endpoints_of_their_pods() {
    let server = server(Speed::instant());
    server.create(deployment("web", 150)).unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": "http"}],
    }});
    server.create(service).unwrap();
    let ready = |server: &ApiServer| {
        let slices = server.list("endpointslices.discovery.k8s.io", "default");
        let all = slices
            .iter()
            .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        all.filter(|one| one["conditions"]["ready"] == true).count()
    };
    until(&server, "all ready", |server| ready(server) == 150).await;
    let slices = server.list("endpointslices.discovery.k8s.io", "default");
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[0]["ports"][0]["port"], 80);
    assert_eq!(
        slices[0]["metadata"]["labels"]["kubernetes.io/service-name"],
        "web"
    );
    let endpoints = server.get("endpoints", "default", "web").unwrap();
    assert_eq!(
        endpoints["subsets"][0]["addresses"]
            .as_array()
            .unwrap()
            .len(),
        150
    );
    server.delete("services", "default", "web").unwrap();
    until(&server, "gone", |server| {
        server
            .list("endpointslices.discovery.k8s.io", "default")
            .is_empty()
            && server.get("endpoints", "default", "web").is_none()
    })
    .await;
}
