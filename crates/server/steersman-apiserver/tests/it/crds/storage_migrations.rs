//! Tests of stored versions and of StorageVersionMigrations over HTTP requests.

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, ApiServerBuilder, Snapshot};

use crate::support::{WEBSITES, get, merge, post, put, server, website, website_crd};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "/apis/storagemigration.k8s.io/v1beta1";
const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";

fn enabled() -> ApiServerBuilder {
    let starts_at = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().starts_at(starts_at);
    builder.storage_migrations(true)
}

/// Returns the definition with a second version `v2`, which is the storage version if `stored` says
/// so.
fn definition(stored: &str) -> Value {
    let mut crd = website_crd();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions.push(second);
    for version in versions {
        version["storage"] = json!(version["name"] == stored);
    }
    crd
}

/// Returns a server with Websites that are stored as `v1`; their storage version is `v2`.
fn with_websites(builder: ApiServerBuilder, count: usize) -> ApiServer {
    let server = builder.build();
    server.install_crd(definition("v1")).unwrap();
    for number in 0..count {
        server.create(website(&format!("w{number:05}"))).unwrap();
    }
    server.install_crd(definition("v2")).unwrap();
    server
}

fn migration(name: &str) -> Value {
    json!({"apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": "example.com", "resource": "websites"}}})
}

fn text(server: &ApiServer) -> String {
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Returns the number of Websites that are stored in this version.
fn stored(server: &ApiServer, version: &str) -> usize {
    let start = format!("{{\"kind\":\"Website\",\"apiVersion\":\"example.com/{version}\"");
    text(server).matches(&start).count()
}

/// Returns whether a migration has the condition.
fn holds(migration: &Value, condition: &str) -> bool {
    let all = migration["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.any(|one| one["type"] == condition && one["status"] == "True")
}

/// Reads a migration until it is over. Returns how often it was read while it ran.
async fn wait(server: &ApiServer, name: &str) -> (Value, usize) {
    let mut running = 0;
    loop {
        let found = get(server, &format!("{MIGRATIONS}/{name}"))
            .await
            .expect(200);
        if (holds(&found, "Succeeded") || holds(&found, "Failed")) && !holds(&found, "Running") {
            return (found, running);
        }
        running += usize::from(holds(&found, "Running"));
        tokio::task::yield_now().await;
    }
}

async fn stored_versions(server: &ApiServer) -> Value {
    let path = format!("{DEFINITIONS}/websites.example.com");
    let crd = get(server, &path).await.expect(200);
    crd["status"]["storedVersions"].clone()
}

/// SRV-REG-4
#[tokio::test(start_paused = true)]
async fn a_put_without_a_change_stores_an_object_of_an_old_version_anew() {
    let server = with_websites(ApiServer::builder(), 1);
    let path = format!("{WEBSITES}/w00000");
    let before = get(&server, &path).await.expect(200);
    assert_eq!((stored(&server, "v1"), stored(&server, "v2")), (1, 0));
    let after = put(&server, &path, &before).await.expect(200);
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_ne!(version(&after), version(&before));
    assert_eq!((stored(&server, "v1"), stored(&server, "v2")), (0, 1));
    let again = put(&server, &path, &after).await.expect(200);
    assert_eq!(version(&again), version(&after));
}

#[tokio::test(start_paused = true)]
async fn migrations_are_served_only_if_they_are_enabled() {
    let server = server();
    assert_eq!(get(&server, GROUP).await.status, 404);
    assert_eq!(post(&server, MIGRATIONS, &migration("m")).await.status, 404);
    let groups = get(&server, "/apis").await.expect(200).to_string();
    assert!(!groups.contains("storagemigration"));
    let openapi = get(&server, "/openapi/v2").await;
    assert!(!openapi.text.contains("StorageVersionMigration"));

    let server = enabled().build();
    let resources = get(&server, GROUP).await.expect(200);
    let names: Vec<&Value> = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(
        names,
        [
            "storageversionmigrations",
            "storageversionmigrations/status"
        ]
    );
    assert_eq!(resources["resources"][0]["namespaced"], false);
    let groups = get(&server, "/apis").await.expect(200).to_string();
    assert!(groups.contains("storagemigration.k8s.io/v1beta1"));
    let openapi = get(&server, "/openapi/v3/apis/storagemigration.k8s.io/v1beta1")
        .await
        .expect(200);
    let schemas = &openapi["components"]["schemas"];
    let spec = &schemas["io.k8s.api.storagemigration.v1beta1.StorageVersionMigrationSpec"];
    assert!(spec["properties"]["resource"].is_object(), "{spec}");
}

#[tokio::test(start_paused = true)]
async fn a_migration_is_validated_and_its_spec_is_immutable() {
    let server = enabled().play_controllers(false).build();
    let mut wrong = migration("m");
    wrong["spec"]["resource"]["resource"] = json!("");
    let refused = post(&server, MIGRATIONS, &wrong).await.expect(422);
    assert_eq!(
        refused["message"],
        "StorageVersionMigration.storagemigration.k8s.io \"m\" is invalid: spec.resource.resource: Required value: resource is required to be set"
    );
    let mut made = migration("m");
    made["status"] = json!({"resourceVersion": "7"});
    let made = post(&server, MIGRATIONS, &made).await.expect(201);
    assert_eq!(made["status"], json!({}), "a create writes no status");
    let path = format!("{MIGRATIONS}/m");
    let other = json!({"spec": {"resource": {"resource": "others"}}});
    let refused = merge(&server, &path, &other).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with("field is immutable"), "{message}");
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({"status": {"conditions": [condition("Succeeded"), condition("Failed")]}});
    let refused = merge(&server, &format!("{path}/status"), &status).await;
    assert_eq!(refused.status, 422);
    let status = json!({"metadata": {"labels": {"a": "b"}},
        "status": {"conditions": [condition("Running")]}});
    let written = merge(&server, &format!("{path}/status"), &status)
        .await
        .expect(200);
    assert!(holds(&written, "Running"));
    assert_eq!(written["metadata"]["labels"], Value::Null);
    // No controller is played, so the migration is not carried out.
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    let kept = get(&server, &path).await.expect(200);
    assert_eq!(kept["status"]["conditions"].as_array().unwrap().len(), 1);
}

/// SRV-SVM-2, SRV-SVM-3
#[tokio::test(start_paused = true)]
async fn requests_are_answered_while_a_migration_stores_many_objects() {
    let count = 2_000;
    let server = with_websites(enabled(), count);
    assert_eq!(stored_versions(&server).await, json!(["v1", "v2"]));
    post(&server, MIGRATIONS, &migration("m")).await.expect(201);
    let (ended, running) = wait(&server, "m").await;
    assert!(holds(&ended, "Succeeded"), "{ended}");
    assert!(
        running >= count / 20,
        "{running} requests were answered meanwhile"
    );
    assert_eq!((stored(&server, "v1"), stored(&server, "v2")), (0, count));
    assert_eq!(stored_versions(&server).await, json!(["v2"]));
    let mut dropped = definition("v2");
    let versions = dropped["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|one| one["name"] == "v2");
    server.install_crd(dropped).unwrap();
}

/// A server that starts from the data of another one continues its migration.
#[tokio::test(start_paused = true)]
async fn a_migration_continues_after_a_restart() {
    let count = 200;
    let server = with_websites(enabled(), count);
    post(&server, MIGRATIONS, &migration("m")).await.expect(201);
    while stored(&server, "v2") == 0 {
        tokio::task::yield_now().await;
    }
    let saved = text(&server);
    server.shut_down();
    let again = enabled()
        .restore(Snapshot::read(saved.as_bytes()).unwrap())
        .build();
    assert!(stored(&again, "v1") > 0, "the migration was interrupted");
    let (ended, _) = wait(&again, "m").await;
    assert!(holds(&ended, "Succeeded"), "{ended}");
    assert_eq!((stored(&again, "v1"), stored(&again, "v2")), (0, count));
    assert_eq!(stored_versions(&again).await, json!(["v2"]));
}
