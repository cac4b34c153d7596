//! Tests of custom resources over HTTP requests.

mod storage_migrations;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{
    WEBSITES, Watch, ask, delete, get, merge, post, put, server, website, website_crd,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_at_once() {
    let server = server();
    assert_eq!(post(&server, WEBSITES, &website("one")).await.status, 404);
    post(&server, DEFINITIONS, &website_crd()).await.expect(201);
    let crd = get(&server, &format!("{DEFINITIONS}/websites.example.com"))
        .await
        .expect(200);
    let established = crd["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    assert!(established, "{crd}");
    let created = post(&server, WEBSITES, &website("one")).await.expect(201);
    assert_eq!(created["spec"]["replicas"], 1, "the default is filled in");
    assert_eq!(created["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn rules_are_enforced_from_the_moment_they_are_written() {
    let server = server();
    let path = format!("{DEFINITIONS}/websites.example.com");
    assert_eq!(post(&server, DEFINITIONS, &website_crd()).await.status, 201);
    let mut ruled = get(&server, &path).await.expect(200);
    let schema = &mut ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{ "rule": "self.replicas < 3 && self.nothing" }]);
    let refused = put(&server, &path, &ruled).await;
    assert_eq!(refused.status, 422);
    let schema = &mut ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{ "rule": "self.replicas < 3" }]);
    let updated = put(&server, &path, &ruled).await;
    assert_eq!((updated.status, updated.header("warning")), (200, ""));
    let mut site = website("a");
    site["spec"]["replicas"] = json!(3);
    let refused = post(&server, WEBSITES, &site).await;
    assert_eq!(refused.status, 422);
    let cause = &refused.json()["details"]["causes"][0];
    assert_eq!(cause["field"], "spec");
    assert_eq!(
        cause["message"],
        "Invalid value: failed rule: self.replicas < 3"
    );
}

#[tokio::test(start_paused = true)]
async fn violations_of_the_schema_are_refused_with_causes() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let mut wrong = website("one");
    wrong["spec"] = json!({ "replicas": -1 });
    let refused = post(&server, WEBSITES, &wrong).await.expect(422);
    let causes: Vec<_> = refused["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert!(
        causes.iter().any(|cause| cause["field"] == "spec.image"),
        "{refused}"
    );
    assert!(
        causes.iter().any(|cause| cause["field"] == "spec.replicas"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_is_refused_naming_the_accepted_types() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    post(&server, WEBSITES, &website("one")).await.expect(201);
    let path = format!("{WEBSITES}/one");
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    let refused = ask(&server, "PATCH", &path, &headers, "{}")
        .await
        .expect(415);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("application/json-patch+json, application/merge-patch+json"),
        "{message}"
    );
    merge(&server, &path, &json!({ "spec": { "image": "other" } }))
        .await
        .expect(200);
}

#[tokio::test(start_paused = true)]
async fn status_and_scale() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    post(&server, WEBSITES, &website("one")).await.expect(201);
    let status = json!({ "status": { "replicas": 1 }, "spec": { "image": "ignored" } });
    let patched = merge(&server, &format!("{WEBSITES}/one/status"), &status)
        .await
        .expect(200);
    assert_eq!(patched["spec"]["image"], "registry.example.com/site:1");
    let four = json!({ "spec": { "replicas": 4 } });
    let scaled = merge(&server, &format!("{WEBSITES}/one/scale"), &four)
        .await
        .expect(200);
    assert_eq!(scaled["status"]["replicas"], 1);
    assert_eq!(
        server
            .get("websites.example.com", "default", "one")
            .unwrap()["spec"]["replicas"],
        4
    );
}

/// A client that deletes a definition and then watches sees the definition end, as on a server with
/// controllers that act after the answer.
#[tokio::test(start_paused = true)]
async fn a_definition_can_be_removed_after_its_deletion_is_answered() {
    let server = ApiServer::builder().remove_at_once(false).build();
    let path = format!("{DEFINITIONS}/websites.example.com");
    post(&server, DEFINITIONS, &website_crd()).await.expect(201);
    post(&server, WEBSITES, &website("one")).await.expect(201);
    let answer = delete(&server, &path).await.expect(200);
    let reason = |crd: &Value| crd["status"]["conditions"][2]["reason"].clone();
    assert_eq!(reason(&answer), "InstanceDeletionPending");
    // The objects exist, and new ones are refused.
    get(&server, &format!("{WEBSITES}/one")).await.expect(200);
    assert_eq!(post(&server, WEBSITES, &website("two")).await.status, 405);
    let taken = post(&server, DEFINITIONS, &website_crd()).await;
    assert_eq!(taken.status, 409);
    let mut definitions = Watch::open(&server, &format!("{DEFINITIONS}?watch=1")).await;
    let mut websites = Watch::open(&server, &format!("{WEBSITES}?watch=1")).await;
    for (kind, said) in [
        ("ADDED", "InstanceDeletionPending"),
        ("MODIFIED", "InstanceDeletionInProgress"),
        ("DELETED", "InstanceDeletionInProgress"),
    ] {
        let event = definitions.next().await.unwrap();
        assert_eq!(event["type"], kind);
        assert_eq!(reason(&event["object"]), said);
    }
    assert_eq!(websites.next().await.unwrap()["type"], "ADDED");
    assert_eq!(websites.next().await.unwrap()["type"], "DELETED");
    assert_eq!(get(&server, &path).await.status, 404);
    assert_eq!(get(&server, WEBSITES).await.status, 404);
}

/// A server that stopped between the two continues after its next start.
#[tokio::test(start_paused = true)]
async fn the_removal_of_a_definition_continues_after_a_start() {
    let later = || ApiServer::builder().remove_at_once(false);
    let server = later().build();
    let path = format!("{DEFINITIONS}/websites.example.com");
    post(&server, DEFINITIONS, &website_crd()).await.expect(201);
    delete(&server, &path).await.expect(200);
    let snapshot = server.snapshot();
    drop(server);
    let next = later().restore(snapshot).build();
    let mut watch = Watch::open(&next, &format!("{DEFINITIONS}?watch=1")).await;
    let mut kinds = Vec::new();
    for _ in 0..3 {
        kinds.push(watch.next().await.unwrap()["type"].clone());
    }
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
}
