//! Tests of the simulator's Events.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{Played, Speed};

use super::{complete, deployment, names, pod_spec, server, status, until};

/// Returns source, type, reason, message and count of Events, in the order of their creation.
fn events_of(server: &ApiServer, kind: &str, name: &str) -> Vec<(String, String, String, i64)> {
    let mut all = server.list("events", "default");
    all.retain(|event| {
        event["involvedObject"]["kind"] == kind && event["involvedObject"]["name"] == name
    });
    let version = |event: &Value| -> u64 {
        let number = event["metadata"]["name"].as_str().unwrap();
        u64::from_str_radix(number.rsplit('.').next().unwrap(), 16).unwrap()
    };
    all.sort_by_key(version);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    all.iter()
        .map(|event| {
            assert_eq!(event["metadata"]["namespace"], "default");
            (
                text(event, "reportingComponent"),
                text(event, "reason"),
                text(event, "message"),
                event["count"].as_i64().unwrap_or(0),
            )
        })
        .collect()
}

fn event(source: &str, reason: &str, message: &str, count: i64) -> (String, String, String, i64) {
    (
        source.to_owned(),
        reason.to_owned(),
        message.to_owned(),
        count,
    )
}

#[tokio::test(start_paused = true)]
async fn a_deployment_and_its_pods_get_the_events_of_a_real_cluster() {
    let server = server(Speed::instant());
    server.create(deployment("web", 1)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 1)).await;
    let set = names(&server.list("replicasets.apps", "default")).remove(0);
    let pod = names(&server.list("pods", "default")).remove(0);
    let scaled = format!("Scaled up replica set {set} from 0 to 1");
    let by = "deployment-controller";
    assert_eq!(
        events_of(&server, "Deployment", "web"),
        [event(by, "ScalingReplicaSet", &scaled, 1)]
    );
    let created = format!("Created pod: {pod}");
    assert_eq!(
        events_of(&server, "ReplicaSet", &set),
        [event(
            "replicaset-controller", "SuccessfulCreate", &created, 1
        )]
    );
    let placed = format!("Successfully assigned default/{pod} to node-1");
    let there =
        "Container image \"web:1\" already present on machine and can be accessed by the pod";
    assert_eq!(
        events_of(&server, "Pod", &pod),
        [
            event("default-scheduler", "Scheduled", &placed, 0),
            event("kubelet", "Pulled", there, 1),
            event("kubelet", "Created", "Container created", 1),
            event("kubelet", "Started", "Container started", 1),
        ]
    );
    let all = server.list("events", "default");
    let kubelet = all.iter().find(|one| one["reason"] == "Started").unwrap();
    assert_eq!(
        kubelet["source"],
        json!({"component": "kubelet", "host": "node-1"})
    );
    assert_eq!(
        kubelet["involvedObject"]["fieldPath"],
        "spec.containers{web}"
    );
    // After scaling to zero there are Events for both directions.
    let patch = json!({"spec": {"replicas": 0}});
    server
        .merge_patch("deployments.apps", "default", "web", &patch)
        .unwrap();
    until(&server, "none", |server| {
        server.list("pods", "default").is_empty()
    })
    .await;
    let down = format!("Scaled down replica set {set} from 1 to 0");
    assert!(
        events_of(&server, "Deployment", "web").contains(&event(by, "ScalingReplicaSet", &down, 1))
    );
    let stopped = event("kubelet", "Killing", "Stopping container web", 1);
    assert!(events_of(&server, "Pod", &pod).contains(&stopped));
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_counted_and_old_events_deleted() {
    let server = server(Speed::brisk());
    server
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "bad", "annotations": {"play.steersman/pod-failure": "CrashLoopBackOff"},
        }, "spec": pod_spec("web:1")}))
        .unwrap();
    tokio::time::sleep(Duration::from_secs(35)).await;
    let all = events_of(&server, "Pod", "bad");
    let counts: Vec<(&str, i64)> = all.iter().map(|one| (&*one.1, one.3)).collect();
    assert_eq!(
        counts,
        [
            ("Scheduled", 0),
            ("Pulled", 3),
            ("Created", 3),
            ("Started", 3),
            ("BackOff", 3)
        ]
    );
    server.delete("pods", "default", "bad").unwrap();
    tokio::time::sleep(Duration::from_secs(4_000)).await;
    server.create(deployment("web", 1)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(events_of(&server, "Pod", "bad").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_gets_an_event_about_its_end() {
    let server = server(Speed::brisk());
    let mut pod = pod_spec("work:1");
    pod["restartPolicy"] = json!("Never");
    server
        .create(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"template": {"spec": pod}},
        }))
        .unwrap();
    until(&server, "complete", |server| {
        status(server, "jobs.batch", "work")["completionTime"].is_string()
    })
    .await;
    let reasons: Vec<String> = events_of(&server, "Job", "work")
        .into_iter()
        .map(|one| one.1)
        .collect();
    assert_eq!(reasons, ["SuccessfulCreate", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn no_events_are_written_if_events_are_off() {
    let server = ApiServer::builder()
        .play(Played::everything().events(false))
        .build();
    server.create(deployment("web", 1)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 1)).await;
    assert!(server.list("events", "default").is_empty());
}
