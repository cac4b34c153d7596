//! Tests of adoption and release of Pods and ReplicaSets, and of the simulator's clock over two runtimes.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::Speed;

use super::{deployment, names, pod_spec, server, status, until, workload};

fn owner(server: &ApiServer, pod: &str) -> Value {
    let pod = server.get("pods", "default", pod).unwrap();
    pod["metadata"]["ownerReferences"][0]["name"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_longer_matches_the_selector_is_released_and_replaced() {
    let server = server(Speed::instant());
    server
        .create(workload("ReplicaSet", "web", &json!({"replicas": 2})))
        .unwrap();
    let ready =
        |server: &ApiServer| status(server, "replicasets.apps", "web")["readyReplicas"] == 2;
    until(&server, "ready", ready).await;
    let pod = names(&server.list("pods", "default")).remove(0);
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    server
        .merge_patch("pods", "default", &pod, &label("debug"))
        .unwrap();
    until(&server, "a third Pod", |server| {
        server.list("pods", "default").len() == 3 && ready(server)
    })
    .await;
    assert!(owner(&server, &pod).is_null());
    // The Pod matches again: now there is one too many, and one is deleted.
    server
        .merge_patch("pods", "default", &pod, &label("web"))
        .unwrap();
    until(&server, "two Pods", |server| {
        server.list("pods", "default").len() == 2 && ready(server)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_without_a_controller_is_adopted_again() {
    let server = server(Speed::instant());
    server.create(deployment("web", 1)).unwrap();
    let set = |server: &ApiServer| server.list("replicasets.apps", "default").pop();
    until(&server, "a ReplicaSet", |server| set(server).is_some()).await;
    let (before, none) = (
        set(&server).unwrap(),
        json!({"metadata": {"ownerReferences": null}}),
    );
    let name = before["metadata"]["name"].as_str().unwrap();
    server
        .merge_patch("replicasets.apps", "default", name, &none)
        .unwrap();
    until(&server, "adopted", |server| {
        set(server).unwrap()["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    })
    .await;
    // The Deployment notices that its ReplicaSet is gone, too.
    server.delete("replicasets.apps", "default", name).unwrap();
    until(&server, "a new ReplicaSet", |server| {
        set(server).is_some_and(|set| set["metadata"]["uid"] != before["metadata"]["uid"])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_controllers_release_pods_too() {
    let server = server(Speed::instant().complete(Duration::from_secs(1_000)));
    server
        .create(workload("StatefulSet", "db", &json!({"replicas": 1})))
        .unwrap();
    server
        .create(workload("DaemonSet", "agent", &json!({})))
        .unwrap();
    let mut work = pod_spec("work:1");
    work["restartPolicy"] = json!("Never");
    server
        .create(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"template": {"spec": work}},
        }))
        .unwrap();
    until(&server, "three Pods", |server| {
        let pods = server.list("pods", "default");
        pods.len() == 3 && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
    })
    .await;
    for name in names(&server.list("pods", "default")) {
        let labels = json!({"metadata": {"labels": {
            "app": "loose", "controller-uid": null, "batch.kubernetes.io/controller-uid": "other",
        }}});
        server
            .merge_patch("pods", "default", &name, &labels)
            .unwrap();
    }
    until(&server, "all let go", |server| {
        let pods = server.list("pods", "default");
        let loose = pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == "loose");
        loose.clone().count() == 3
            && loose.clone().all(|pod| {
                let metadata = &pod["metadata"];
                metadata.get("ownerReferences").is_none() && metadata.get("finalizers").is_none()
            })
    })
    .await;
    // The name of the StatefulSet's Pod is taken; the other controllers have a new Pod.
    until(&server, "replaced", |server| {
        server.list("pods", "default").len() == 5
    })
    .await;
}

/// A second runtime continues the simulator from where the first one stopped.
#[test]
fn a_second_runtime_continues_the_players_waits() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let first = runtime();
    let server = first.block_on(async {
        let server = server(Speed::instant().start(Duration::from_secs(100)));
        server.create(deployment("web", 1)).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        server
    });
    drop(first);
    let pods = runtime().block_on(async {
        let _service = server.service();
        tokio::time::sleep(Duration::from_secs(50)).await;
        server.list("pods", "default")
    });
    assert_eq!(pods[0]["status"]["phase"], "Running");
}
