//! Tests of the simulator: workloads start, roll out, scale down, fail and are deleted.

mod cluster;
mod cron_jobs;
mod events;
mod jobs;
mod kinds;
mod ownership;
mod rollouts;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{Played, PodFailure, Speed};

fn server(speed: Speed) -> ApiServer {
    let played = Played::everything().speed(speed);
    ApiServer::builder().play(played).build()
}

fn pod_spec(image: &str) -> Value {
    json!({"containers": [{"name": "web", "image": image, "ports": [
        {"name": "http", "containerPort": 80},
    ]}]})
}

fn workload(kind: &str, name: &str, spec: &Value) -> Value {
    let labels = json!({"app": name});
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec("web:1")},
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn deployment(name: &str, replicas: i64) -> Value {
    workload("Deployment", name, &json!({"replicas": replicas}))
}

/// Waits on the paused clock until a condition holds.
async fn until(server: &ApiServer, what: &str, holds: impl Fn(&ApiServer) -> bool) {
    for _ in 0..2_000 {
        if holds(server) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let pods = server.list("pods", "default");
    panic!(
        "never {what}: {}",
        serde_json::to_string_pretty(&pods).unwrap()
    );
}

fn status(server: &ApiServer, resource: &str, name: &str) -> Value {
    let found = server.get(resource, "default", name).unwrap_or_default();
    found["status"].clone()
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.find(|one| one["type"] == kind)
        .cloned()
        .unwrap_or_default()
}

fn complete(server: &ApiServer, name: &str, replicas: i64) -> bool {
    let found = server.get("deployments.apps", "default", name).unwrap();
    let status = &found["status"];
    status["observedGeneration"] == found["metadata"]["generation"]
        && status["updatedReplicas"] == replicas
        && status["replicas"] == replicas
        && status["availableReplicas"] == replicas
        && condition(status, "Progressing")["reason"] == "NewReplicaSetAvailable"
}

fn names(objects: &[Value]) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    objects.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_the_objects_and_statuses_of_a_real_cluster() {
    let server = server(Speed::instant());
    server.create(deployment("web", 3)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 3)).await;
    let found = server.get("deployments.apps", "default", "web").unwrap();
    assert_eq!(
        found["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
    let available = condition(&found["status"], "Available");
    assert_eq!(available["reason"], "MinimumReplicasAvailable");
    let sets = server.list("replicasets.apps", "default");
    let [set] = sets.as_slice() else {
        panic!("{sets:?}")
    };
    assert_eq!(
        set["metadata"]["ownerReferences"][0]["uid"],
        found["metadata"]["uid"]
    );
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(set["status"]["readyReplicas"], 3);
    let nodes = server.list("nodes", "");
    assert_eq!(names(&nodes), ["node-1"]);
    assert!(nodes[0]["spec"].get("taints").is_none());
    for pod in server.list("pods", "default") {
        assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], *hash);
        assert_eq!(pod["spec"]["nodeName"], "node-1");
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(condition(&pod["status"], "Ready")["status"], "True");
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        let managers: Vec<&Value> = pod["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["manager"])
            .collect();
        assert!(
            managers
                .iter()
                .any(|one| **one == "kube-controller-manager")
        );
        assert!(managers.iter().any(|one| **one == "kubelet"));
    }
}

/// PLAY-2
#[tokio::test(start_paused = true)]
async fn exactly_the_requested_number_of_pods_is_created_and_deleted() {
    let server = server(Speed::brisk().jitter(0.5));
    server.create(deployment("web", 60)).unwrap();
    for replicas in [60, 3, 0, 5] {
        let patch = json!({"spec": {"replicas": replicas}});
        server
            .merge_patch("deployments.apps", "default", "web", &patch)
            .unwrap();
        until(&server, "scaled", |server| {
            complete(server, "web", replicas)
                || (replicas == 0 && server.list("pods", "default").is_empty())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let pods = server.list("pods", "default");
        assert_eq!(i64::try_from(pods.len()).unwrap(), replicas);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_replaces_the_pods_and_can_be_undone() {
    let server = server(Speed::brisk());
    server.create(deployment("web", 4)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 4)).await;
    let first = names(&server.list("replicasets.apps", "default"));
    let image = |image: &str| json!({"spec": {"template": {"spec": pod_spec(image)}}});
    server
        .merge_patch("deployments.apps", "default", "web", &image("web:2"))
        .unwrap();
    until(&server, "the rollout", |server| complete(server, "web", 4)).await;
    let running = || {
        let mut images: Vec<String> = Vec::new();
        for pod in server.list("pods", "default") {
            images.push(
                pod["spec"]["containers"][0]["image"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        images.sort();
        images.dedup();
        images
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running(), ["web:2"]);
    let revision = |server: &ApiServer| {
        let found = server.get("deployments.apps", "default", "web").unwrap();
        found["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone()
    };
    assert_eq!(revision(&server), "2");
    // Back to the previous template: the old set is used again, under a new revision.
    server
        .merge_patch("deployments.apps", "default", "web", &image("web:1"))
        .unwrap();
    until(&server, "undone", |server| complete(server, "web", 4)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running(), ["web:1"]);
    assert_eq!(revision(&server), "3");
    let set = server
        .get("replicasets.apps", "default", &first[0])
        .unwrap();
    assert_eq!(set["spec"]["replicas"], 4);
    assert_eq!(
        set["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"],
        "1"
    );
    assert_eq!(server.list("replicasets.apps", "default").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn recreate_stops_all_pods_before_it_starts_new_ones() {
    let server = server(Speed::brisk().stop(Duration::from_secs(5)));
    let spec = json!({"replicas": 2, "strategy": {"type": "Recreate"}});
    server.create(workload("Deployment", "web", &spec)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 2)).await;
    let patch = json!({"spec": {"template": {"spec": pod_spec("web:2")}}});
    server
        .merge_patch("deployments.apps", "default", "web", &patch)
        .unwrap();
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let pods = server.list("pods", "default");
        let old = pods
            .iter()
            .filter(|pod| pod["spec"]["containers"][0]["image"] == "web:1")
            .count();
        assert!(old == 0 || old == pods.len(), "both at once");
    }
    until(&server, "complete", |server| complete(server, "web", 2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_rollout_keeps_available_pods_and_reports_the_failure() {
    let server = server(Speed::brisk());
    server.create(deployment("web", 4)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 4)).await;
    let patch = json!({"spec": {"progressDeadlineSeconds": 30, "template": {
        "metadata": {"labels": {"bad": "yes"}}, "spec": pod_spec("absent:1"),
    }}});
    let failure = server
        .simulator()
        .fail_pods("default", "bad=yes", PodFailure::ImagePull)
        .unwrap();
    server
        .merge_patch("deployments.apps", "default", "web", &patch)
        .unwrap();
    until(&server, "the deadline", |server| {
        let status = status(server, "deployments.apps", "web");
        condition(&status, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    })
    .await;
    assert_eq!(
        status(&server, "deployments.apps", "web")["availableReplicas"],
        3
    );
    let pods = server.list("pods", "default");
    let bad = pods
        .iter()
        .find(|pod| pod["metadata"]["labels"]["bad"] == "yes")
        .unwrap();
    let waiting = &bad["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    // The image is available again.
    drop(failure);
    until(&server, "complete", |server| complete(server, "web", 4)).await;
}

#[tokio::test(start_paused = true)]
async fn pods_fail_in_every_requested_way() {
    let server = server(Speed::brisk());
    let pod = |failure: PodFailure| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": failure.as_str().to_lowercase(),
                "annotations": {"play.steersman/pod-failure": failure.as_str()},
            },
            "spec": pod_spec("web:1"),
        })
    };
    for failure in [
        PodFailure::CrashLoop,
        PodFailure::ImagePull,
        PodFailure::Failed,
        PodFailure::NeverReady,
        PodFailure::Unschedulable,
    ] {
        server.create(pod(failure)).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(35)).await;
    let read = |name: &str| status(&server, "pods", name);
    let crashing = read("crashloopbackoff");
    let container = &crashing["containerStatuses"][0];
    assert_eq!(crashing["phase"], "Running");
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(container["restartCount"], 2, "after 10 s and 30 s");
    assert_eq!(
        condition(&crashing, "Ready")["reason"],
        "ContainersNotReady"
    );
    assert_eq!(read("imagepullbackoff")["phase"], "Pending");
    assert_eq!(read("failed")["phase"], "Failed");
    assert_eq!(read("neverready")["phase"], "Running");
    assert_eq!(condition(&read("neverready"), "Ready")["status"], "False");
    assert_eq!(
        condition(&read("unschedulable"), "PodScheduled")["reason"],
        "Unschedulable"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_ends_at_its_speed_or_after_its_grace_period() {
    let server = server(Speed::instant().stop(Duration::from_secs(2)));
    for name in ["quick", "stubborn"] {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec("web:1"),
        });
        if name == "stubborn" {
            pod["metadata"]["annotations"] = json!({"play.steersman/pod-failure": "Unstoppable"});
        }
        server.create(pod).unwrap();
    }
    until(&server, "running", |server| {
        status(server, "pods", "stubborn")["phase"] == "Running"
    })
    .await;
    for name in ["quick", "stubborn"] {
        server.delete("pods", "default", name).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.list("pods", "default").len(), 2);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(names(&server.list("pods", "default")), ["stubborn"]);
    tokio::time::sleep(Duration::from_secs(28)).await;
    assert!(server.list("pods", "default").is_empty());
}

/// PLAY-3
#[tokio::test(start_paused = true)]
async fn missed_changes_are_found_by_a_full_look() {
    let played = Played::everything();
    let server = ApiServer::builder()
        .play(played)
        .retained_revisions(8)
        .build();
    server.create(deployment("web", 2)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 2)).await;
    // More changes than the log of past revisions holds, and then a compaction.
    for number in 0..30 {
        server
            .create(deployment(&format!("more-{number}"), 1))
            .unwrap();
    }
    server.delete("deployments.apps", "default", "web").unwrap();
    server.compact();
    until(&server, "all of them", |server| {
        (0..30).all(|number| complete(server, &format!("more-{number}"), 1))
    })
    .await;
    assert_eq!(server.list("pods", "default").len(), 30);
}

/// PLAY-1: the simulator leaves a status that a client reports as it is.
#[tokio::test(start_paused = true)]
async fn a_pod_status_reported_by_a_client_stays() {
    let server = server(Speed::instant());
    server.create(deployment("web", 1)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 1)).await;
    let mut pod = server.list("pods", "default").remove(0);
    for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
        if condition["type"] == "Ready" {
            condition["status"] = json!("False");
        }
    }
    server.update("pods/status", pod).unwrap();
    until(&server, "unavailable", |server| {
        let status = status(server, "deployments.apps", "web");
        condition(&status, "Available")["status"] == "False"
    })
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let pod = server.list("pods", "default").remove(0);
    assert_eq!(condition(&pod["status"], "Ready")["status"], "False");
}

/// PLAY-2
#[tokio::test(start_paused = true)]
async fn an_adopted_pod_is_not_created_again() {
    let server = server(Speed::instant());
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "mine", "labels": {"app": "web"}}, "spec": pod_spec("web:1")});
    server.create(pod).unwrap();
    server
        .create(workload("ReplicaSet", "web", &json!({"replicas": 2})))
        .unwrap();
    until(&server, "ready", |server| {
        status(server, "replicasets.apps", "web")["readyReplicas"] == 2
    })
    .await;
    let pods = server.list("pods", "default");
    assert_eq!(pods.len(), 2);
    let mine = server.get("pods", "default", "mine").unwrap();
    assert_eq!(mine["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_deletes_its_sets_and_pods() {
    let server = server(Speed::brisk());
    server.create(deployment("web", 3)).unwrap();
    until(&server, "complete", |server| complete(server, "web", 3)).await;
    server.delete("deployments.apps", "default", "web").unwrap();
    until(&server, "gone", |server| {
        server.list("pods", "default").is_empty()
    })
    .await;
    assert!(server.list("replicasets.apps", "default").is_empty());
}

/// Yields to the simulator until a condition holds: a paused clock stands still while the simulator
/// works, so there is nothing to sleep for.
async fn after_turns(server: &ApiServer, what: &str, holds: impl Fn(&ApiServer) -> bool) {
    for _ in 0..2_000 {
        if holds(server) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never {what}");
}

/// PLAY-5
#[tokio::test(start_paused = true)]
async fn a_very_large_deployment_does_not_delay_others() {
    let server = server(Speed::instant());
    server.create(deployment("huge", 20_000)).unwrap();
    after_turns(&server, "has the first Pods of the huge one", |server| {
        !server.list("pods", "default").is_empty()
    })
    .await;
    server.create(deployment("small", 3)).unwrap();
    after_turns(&server, "completes the small one", |server| {
        complete(server, "small", 3)
    })
    .await;
    let all = server.list("pods", "default").len();
    assert!(all < 10_000, "{all} Pods came first");
    let to_zero = json!({"spec": {"replicas": 0}});
    server
        .merge_patch("deployments.apps", "default", "huge", &to_zero)
        .unwrap();
    after_turns(&server, "shrinks the huge one", |server| {
        let sets = server.list("replicasets.apps", "default");
        let none = |set: &Value| set["spec"]["replicas"] == 0;
        let huge = |set: &Value| set["metadata"]["ownerReferences"][0]["name"] == "huge";
        sets.iter().filter(|set| huge(set)).all(none)
    })
    .await;
}

/// PLAY-6
#[tokio::test(start_paused = true)]
async fn numbers_at_the_end_of_their_range_do_not_end_the_player() {
    let server = server(Speed::brisk());
    server
        .create(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "late"},
            "spec": {
                "activeDeadlineSeconds": i64::MAX,
                "template": {"spec": {"restartPolicy": "Never", "containers": [
                    {"name": "c", "image": "work:1"},
                ]}},
            },
        }))
        .unwrap();
    until(&server, "starts the Job", |server| {
        status(server, "jobs.batch", "late")["startTime"].is_string()
    })
    .await;
    let mut job = server.get("jobs.batch", "default", "late").unwrap();
    job["status"]["startTime"] = json!("9999-01-01T00:00:00Z");
    // Accepted or refused, the write must not affect other objects.
    let _ = server.update("jobs.batch/status", job);
    server.create(deployment("after", 1)).unwrap();
    until(&server, "completes what came after", |server| {
        complete(server, "after", 1)
    })
    .await;
}
