//! Tests of the deletion of namespaces over HTTP requests.

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, ApiServerBuilder};

use crate::support::{Watch, delete, get, merge, post};

const NAMESPACES: &str = "/api/v1/namespaces";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";

/// Builds servers that remove a deleted namespace after the answer.
fn later() -> ApiServerBuilder {
    ApiServer::builder().remove_at_once(false)
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Creates the namespace `team` with a ConfigMap that a finalizer holds and one that none holds.
async fn fill(server: &ApiServer) {
    let held = json!({"metadata": {"name": "held", "finalizers": ["g.example.com/hold"]}});
    post(server, NAMESPACES, &named("team")).await.expect(201);
    post(server, MAPS, &held).await.expect(201);
    post(server, MAPS, &named("plain")).await.expect(201);
}

fn reasons(namespace: &Value) -> Vec<&str> {
    let conditions = namespace["status"]["conditions"].as_array();
    let all = conditions.into_iter().flatten();
    all.filter_map(|one| one["reason"].as_str()).collect()
}

const CLEAR: [&str; 5] = [
    "ResourcesDiscovered", "ParsedGroupVersions", "ContentDeleted", "ContentRemoved",
    "ContentHasNoFinalizers",
];
const HELD: [&str; 5] = [
    "ResourcesDiscovered", "ParsedGroupVersions", "ContentDeleted", "SomeResourcesRemain",
    "SomeFinalizersRemain",
];

/// SRV-NS-2: a client that deletes a namespace and then watches sees the namespace end.
#[tokio::test(start_paused = true)]
async fn a_namespace_can_be_removed_after_its_deletion_is_answered() {
    let server = later().build();
    post(&server, NAMESPACES, &named("team")).await.expect(201);
    post(&server, MAPS, &named("plain")).await.expect(201);
    let path = format!("{NAMESPACES}/team");
    let answer = delete(&server, &path).await.expect(200);
    assert_eq!(answer["kind"], "Namespace");
    assert!(answer["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(answer["status"], json!({"phase": "Terminating"}));
    assert_eq!(answer["spec"]["finalizers"], json!(["kubernetes"]));
    // The content is there, and nothing is added to it.
    get(&server, &format!("{MAPS}/plain")).await.expect(200);
    let refused = post(&server, MAPS, &named("late")).await.expect(403);
    let cause = &refused["details"]["causes"][0]["reason"];
    assert_eq!(cause, "NamespaceTerminating");
    // A second delete changes nothing.
    assert_eq!(delete(&server, &path).await.expect(200), answer);
    let watched = format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name=team");
    let mut namespaces = Watch::open(&server, &watched).await;
    let mut maps = Watch::open(&server, &format!("{MAPS}?watch=1")).await;
    for (kind, expected) in [
        ("ADDED", &[][..]),
        ("MODIFIED", &CLEAR),
        ("DELETED", &CLEAR),
    ] {
        let event = namespaces.next().await.unwrap();
        assert_eq!(event["type"], kind);
        assert_eq!(reasons(&event["object"]), expected, "{kind}");
        assert_eq!(event["object"]["status"]["phase"], "Terminating");
    }
    assert_eq!(maps.next().await.unwrap()["type"], "ADDED");
    assert_eq!(maps.next().await.unwrap()["type"], "DELETED");
    get(&server, &path).await.expect(404);
    get(&server, &format!("{MAPS}/plain")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_the_finalizers_of_its_content() {
    let server = later().build();
    fill(&server).await;
    delete(&server, &format!("{NAMESPACES}/team"))
        .await
        .expect(200);
    let watched = format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name=team");
    let mut watch = Watch::open(&server, &watched).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    let reported = watch.next().await.unwrap();
    assert_eq!(reported["type"], "MODIFIED");
    assert_eq!(reasons(&reported["object"]), HELD);
    get(&server, &format!("{MAPS}/plain")).await.expect(404);
    let free = json!({"metadata": {"finalizers": null}});
    merge(&server, &format!("{MAPS}/held"), &free)
        .await
        .expect(200);
    let reported = watch.next().await.unwrap();
    assert_eq!(reported["type"], "MODIFIED");
    assert_eq!(reasons(&reported["object"]), CLEAR);
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
}

/// SRV-NS-2: a server that stopped between the answer and the removal continues after its next start.
#[tokio::test(start_paused = true)]
async fn the_removal_of_a_namespace_continues_after_a_start() {
    let server = later().build();
    fill(&server).await;
    delete(&server, &format!("{NAMESPACES}/team"))
        .await
        .expect(200);
    let snapshot = server.snapshot();
    drop(server);
    let next = later().restore(snapshot).build();
    let mut watch = Watch::open(&next, &format!("{MAPS}?watch=1")).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = watch.next().await.unwrap();
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        seen.push(format!(
            "{} {name}",
            event["type"].as_str().unwrap_or_default()
        ));
    }
    assert_eq!(
        seen,
        [
            "ADDED held", "ADDED plain", "MODIFIED held", "DELETED plain"
        ]
    );
}

/// Where another program has the controllers, the server leaves a namespace to them.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_left_to_controllers_that_are_not_played() {
    let server = later().play_controllers(false).build();
    fill(&server).await;
    let path = format!("{NAMESPACES}/team");
    let marked = delete(&server, &path).await.expect(200);
    tokio::time::advance(std::time::Duration::from_secs(3600)).await;
    assert_eq!(get(&server, &path).await.expect(200), marked);
    get(&server, &format!("{MAPS}/plain")).await.expect(200);
    // The controller removes its finalizer, and with it the namespace.
    let mut emptied = marked;
    emptied["spec"]["finalizers"] = json!([]);
    crate::support::put(&server, &format!("{path}/finalize"), &emptied)
        .await
        .expect(200);
    get(&server, &path).await.expect(404);
}
