//! Tests of Jobs and their policies.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{PodFailure, Speed};

use super::{condition, pod_spec, server, status, until};

fn job(name: &str, spec: &Value) -> Value {
    let mut job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    let mut pod = pod_spec("work:1");
    pod["restartPolicy"] = json!("Never");
    let annotations = spec["annotations"].clone();
    if let Some(spec) = job["spec"].as_object_mut() {
        spec.remove("annotations");
    }
    job["spec"]["template"] = json!({"metadata": {"annotations": annotations}, "spec": pod});
    job
}

fn is(name: &'static str, kind: &'static str) -> impl Fn(&ApiServer) -> bool {
    move |server| condition(&status(server, "jobs.batch", name), kind)["status"] == "True"
}

fn pods_by_index(server: &ApiServer) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for pod in server.list("pods", "default") {
        let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
        *found
            .entry(index.as_str().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    found
}

/// PLAY-8
#[tokio::test(start_paused = true)]
async fn an_index_beyond_its_backoff_limit_fails_alone() {
    let server = server(Speed::brisk());
    let _bad = server
        .simulator()
        .fail_pods(
            "",
            "batch.kubernetes.io/job-completion-index=1",
            PodFailure::Failed,
        )
        .unwrap();
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed",
        "backoffLimitPerIndex": 2});
    server.create(job("work", &spec)).unwrap();
    until(&server, "failed", is("work", "Failed")).await;
    let found = status(&server, "jobs.batch", "work");
    assert_eq!(condition(&found, "Failed")["reason"], "FailedIndexes");
    assert_eq!(
        condition(&found, "Failed")["message"],
        "Job has failed indexes"
    );
    assert_eq!(found["completedIndexes"], "0,2,3");
    assert_eq!(found["failedIndexes"], "1");
    assert_eq!(
        (&found["succeeded"], &found["failed"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(found["uncountedTerminatedPods"], json!({}));
    assert_eq!(pods_by_index(&server)["1"], 3, "the first and two more");
    let mut failures: Vec<String> = Vec::new();
    for pod in server.list("pods", "default") {
        let annotations = &pod["metadata"]["annotations"];
        if annotations["batch.kubernetes.io/job-completion-index"] == "1" {
            let count = &annotations["batch.kubernetes.io/job-index-failure-count"];
            failures.push(count.as_str().unwrap().to_owned());
        }
    }
    failures.sort();
    assert_eq!(failures, ["0", "1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_end_the_job() {
    let server = server(Speed::brisk());
    let spec = json!({"completions": 10, "parallelism": 3, "completionMode": "Indexed",
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
        "annotations": {"play.steersman/exit-code": "3"}});
    server.create(job("work", &spec)).unwrap();
    until(&server, "failed", is("work", "Failed")).await;
    let found = status(&server, "jobs.batch", "work");
    assert_eq!(
        condition(&found, "Failed")["reason"],
        "MaxFailedIndexesExceeded"
    );
    assert_eq!(condition(&found, "FailureTarget")["status"], "True");
    assert!(found.get("active").is_none());
    assert_eq!(found["terminating"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_policy_fails_a_job_ignores_or_counts_failures() {
    let server = server(Speed::brisk());
    let policy = |action: &str| {
        json!({"rules": [{"action": action, "onExitCodes": {
            "containerName": "web", "operator": "In", "values": [42],
        }}]})
    };
    let code = |code: &str| json!({"play.steersman/exit-code": code});
    let spec = json!({"backoffLimit": 5, "podFailurePolicy": policy("FailJob"), "annotations": code("42")});
    server.create(job("ends", &spec)).unwrap();
    until(&server, "failed", is("ends", "Failed")).await;
    let found = status(&server, "jobs.batch", "ends");
    assert_eq!(condition(&found, "Failed")["reason"], "PodFailurePolicy");
    let pods = server.list("pods", "default");
    assert_eq!(pods.len(), 1);
    let pod = pods[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        condition(&found, "Failed")["message"],
        format!(
            "Container web for pod default/{pod} failed with exit code 42 matching FailJob rule at index 0"
        )
    );
    assert_eq!(found["failed"], 1);

    // The rule does not match another exit code.
    let spec =
        json!({"backoffLimit": 0, "podFailurePolicy": policy("FailJob"), "annotations": code("1")});
    server.create(job("counts", &spec)).unwrap();
    until(&server, "failed", is("counts", "Failed")).await;
    let found = status(&server, "jobs.batch", "counts");
    assert_eq!(
        condition(&found, "Failed")["reason"],
        "BackoffLimitExceeded"
    );

    let spec =
        json!({"backoffLimit": 0, "podFailurePolicy": policy("Ignore"), "annotations": code("42")});
    server.create(job("ignores", &spec)).unwrap();
    until(&server, "several Pods", |server| {
        let own = |pod: &&Value| pod["metadata"]["labels"]["job-name"] == "ignores";
        server.list("pods", "default").iter().filter(own).count() > 2
    })
    .await;
    let found = status(&server, "jobs.batch", "ignores");
    assert!(found.get("failed").is_none(), "{found}");
    assert!(found.get("conditions").is_none(), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_completes_a_job_early() {
    let server = server(Speed::brisk());
    let _slow = server
        .simulator()
        .fail_pods(
            "",
            "batch.kubernetes.io/job-completion-index notin (0)",
            PodFailure::ImagePull,
        )
        .unwrap();
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    server.create(job("work", &spec)).unwrap();
    until(&server, "complete", is("work", "Complete")).await;
    let found = status(&server, "jobs.batch", "work");
    for kind in ["SuccessCriteriaMet", "Complete"] {
        let state = condition(&found, kind);
        assert_eq!(state["reason"], "SuccessPolicy");
        assert_eq!(state["message"], "Matched rules at index 0");
    }
    assert_eq!(found["succeeded"], 1);
    assert!(found.get("failed").is_none());
    until(&server, "the others gone", |server| {
        server.list("pods", "default").len() == 1
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_exponential_backoff() {
    let server = server(Speed::instant());
    let _bad = server
        .simulator()
        .fail_pods("", "job-name=work", PodFailure::Failed)
        .unwrap();
    server
        .create(job("work", &json!({"backoffLimit": 3})))
        .unwrap();
    let pods = || server.list("pods", "default").len();
    for (seconds, many) in [(5, 1), (10, 2), (20, 3), (40, 4)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(pods(), many, "after {seconds} more");
    }
    assert!(is("work", "Failed")(&server));
}

#[tokio::test(start_paused = true)]
async fn the_replacement_policy_failed_replaces_only_finished_pods() {
    for (policy, at_once) in [("Failed", 1), ("TerminatingOrFailed", 2)] {
        let speed = Speed::instant()
            .stop(Duration::from_secs(20))
            .complete(Duration::from_secs(1_000));
        let server = server(speed);
        server
            .create(job("work", &json!({"podReplacementPolicy": policy})))
            .unwrap();
        until(&server, "running", |server| {
            status(server, "jobs.batch", "work")["ready"] == 1
        })
        .await;
        let pod = super::names(&server.list("pods", "default")).remove(0);
        server.delete("pods", "default", &pod).unwrap();
        // A failure that counts delays the next Pod.
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(server.list("pods", "default").len(), at_once, "{policy}");
        let found = status(&server, "jobs.batch", "work");
        assert_eq!(found["terminating"], 1, "{policy}: {found}");
        until(&server, "replaced", |server| {
            status(server, "jobs.batch", "work")["ready"] == 1
                && server.get("pods", "default", &pod).is_none()
        })
        .await;
        assert_eq!(status(&server, "jobs.batch", "work")["failed"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_job_gets_a_new_start_time() {
    let server = server(Speed::instant().complete(Duration::from_secs(30)));
    server
        .create(job("work", &json!({"activeDeadlineSeconds": 40})))
        .unwrap();
    until(&server, "running", |server| {
        status(server, "jobs.batch", "work")["ready"] == 1
    })
    .await;
    let suspend = |on: bool| json!({"spec": {"suspend": on}});
    let patch = |on: bool| {
        server
            .merge_patch("jobs.batch", "default", "work", &suspend(on))
            .unwrap();
    };
    let began = status(&server, "jobs.batch", "work")["startTime"].clone();
    patch(true);
    until(&server, "stopped", |server| {
        server.list("pods", "default").is_empty()
    })
    .await;
    let found = status(&server, "jobs.batch", "work");
    assert_eq!(condition(&found, "Suspended")["reason"], "JobSuspended");
    assert!(found.get("failed").is_none(), "{found}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    patch(false);
    until(&server, "complete", is("work", "Complete")).await;
    let found = status(&server, "jobs.batch", "work");
    assert_eq!(condition(&found, "Suspended")["status"], "False");
    assert!(found["startTime"].as_str() > began.as_str());
}

/// A Job that is deleted without its Pods, which is the API's default, removes its finalizer from
/// them.
#[tokio::test(start_paused = true)]
async fn the_pods_of_a_deleted_job_lose_their_finalizer() {
    let server = server(Speed::instant().complete(Duration::from_secs(1_000)));
    server
        .create(job("work", &json!({"parallelism": 3, "completions": 3})))
        .unwrap();
    until(&server, "running", |server| {
        status(server, "jobs.batch", "work")["ready"] == 3
    })
    .await;
    server.delete("jobs.batch", "default", "work").unwrap();
    until(&server, "free", |server| {
        let pods = server.list("pods", "default");
        let free = |pod: &Value| pod["metadata"].get("finalizers").is_none();
        pods.len() == 3 && pods.iter().all(free)
    })
    .await;
}
