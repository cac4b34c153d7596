//! Tests of Deployments that are scaled during a rollout.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{PodFailure, Speed};

use super::{complete, deployment, pod_spec, server, until};

/// Returns the sizes of the ReplicaSets, the older first.
fn sizes(server: &ApiServer) -> Vec<i64> {
    let mut sets = server.list("replicasets.apps", "default");
    let revision = |set: &Value| {
        let annotations = &set["metadata"]["annotations"];
        let text = annotations["deployment.kubernetes.io/revision"].as_str();
        text.unwrap().parse::<i64>().unwrap()
    };
    sets.sort_by_key(revision);
    let size = |set: &Value| set["spec"]["replicas"].as_i64().unwrap();
    sets.iter().map(size).collect()
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_is_scaled_keeps_its_proportions() {
    let server = server(Speed::brisk());
    let mut web = deployment("web", 10);
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    server.create(web).unwrap();
    until(&server, "complete", |server| complete(server, "web", 10)).await;
    let failure = server
        .simulator()
        .fail_pods("default", "bad=yes", PodFailure::ImagePull)
        .unwrap();
    let patch = |patch: &Value| {
        server
            .merge_patch("deployments.apps", "default", "web", patch)
            .unwrap();
    };
    patch(&json!({"spec": {"template": {
        "metadata": {"labels": {"bad": "yes"}}, "spec": pod_spec("absent:1"),
    }}}));
    until(&server, "half way", |server| sizes(server) == [8, 5]).await;
    patch(&json!({"spec": {"replicas": 15}}));
    until(&server, "in proportion", |server| sizes(server) == [11, 7]).await;
    drop(failure);
    until(&server, "complete", |server| complete(server, "web", 15)).await;
    assert_eq!(sizes(&server), [0, 15]);
}
