//! Tests servers that refuse events or are away: nothing waits, and every lost event is counted.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_apiserver::{ApiServer, Authorization, User};
use tokio::time::Instant;

use crate::world::{World, config};

/// Makes a world in which the client has no permissions until `grant` is called.
fn without_permissions() -> World {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let client_config = ClientConfig::in_process(server.service_as(User::new("op")), "default");
    World::over(server, client_config)
}

fn grant(server: &ApiServer) {
    let group = "rbac.authorization.k8s.io";
    let rule = json!({
        "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"],
    });
    server
        .create(json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
            "metadata": {"name": "events"}, "rules": [rule],
        }))
        .unwrap();
    server
        .create(json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "events"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "events"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "op"}],
        }))
        .unwrap();
}

async fn until_dropped(world: &World, reason: &str, events: u64) {
    let dropped = steersman_testenv::eventually(reason, || async {
        match world.dropped(reason) {
            dropped if dropped == events => Ok(()),
            dropped => Err(format!("{dropped}")),
        }
    });
    dropped.await.unwrap();
}

/// EVENT-9: writes of Events wait while the server is away.
#[tokio::test(start_paused = true)]
async fn forbidden_events_are_counted_and_later_ones_are_sent_once_the_rule_is_granted() {
    let world = without_permissions();
    world.recorder.normal(&config("site"), "A", "B", "hi");
    until_dropped(&world, "forbidden", 1).await;
    assert_eq!(world.server.requests().count(|r| r.is_for("events")), 1);
    grant(&world.server);
    // A series needs no verb beyond those of the role.
    for _ in 0..2 {
        world.recorder.normal(&config("site"), "A", "B", "hi");
        world.until("an Event", |e| e.len() == 1).await;
    }
    let counted = |e: &[k8s_openapi::api::events::v1::Event]| e[0].series.is_some();
    world.until("its series", counted).await;
    assert_eq!(world.dropped("forbidden"), 1);
}

/// EVENT-9: writes of Events wait while the server is away.
#[tokio::test(start_paused = true)]
async fn events_that_admission_refuses_are_not_counted_as_a_missing_rule() {
    let world = World::new();
    let message = "events.events.k8s.io \"site.1\" is forbidden: exceeded quota: few";
    let answer = Answer::code(403).message(message);
    let _refused = world.server.faults().answer(None, "events", answer);
    world.recorder.normal(&config("site"), "A", "B", "hi");
    until_dropped(&world, "refused", 1).await;
    assert_eq!(world.dropped("forbidden"), 0);
}

/// EVENT-9: writes of Events wait while the server is away.
#[tokio::test(start_paused = true)]
async fn events_in_a_missing_namespace_are_counted_and_not_repeated() {
    let world = World::new();
    let mut site: ConfigMap = config("site");
    site.metadata.namespace = Some("nowhere".to_owned());
    world.recorder.normal(&site, "A", "B", "hi");
    until_dropped(&world, "namespace_missing", 1).await;
    assert_eq!(world.server.requests().count(|r| r.is_for("events")), 1);
}

/// EVENT-9: writes of Events wait while the server is away.
#[tokio::test(start_paused = true)]
async fn events_in_a_namespace_that_is_being_deleted_are_counted() {
    let world = World::new();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"},
    });
    world.server.create(namespace).unwrap();
    // The finalizer of an object keeps the namespace from being deleted.
    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kept", "namespace": "shop", "finalizers": ["example.com/keep"]},
    });
    world.server.create(kept).unwrap();
    world.server.delete("namespaces", "", "shop").unwrap();
    let mut site: ConfigMap = config("site");
    site.metadata.namespace = Some("shop".to_owned());
    world.recorder.normal(&site, "A", "B", "hi");
    until_dropped(&world, "namespace_terminating", 1).await;
}

/// EVENT-9: writes of Events wait while the server is away.
#[tokio::test(start_paused = true)]
async fn events_of_an_outage_are_sent_after_it() {
    let world = World::new();
    let away = world
        .server
        .faults()
        .answer(None, "events", Answer::code(503));
    let before = Instant::now();
    for object in ["a", "b"] {
        world.recorder.normal(&config(object), "A", "B", "hi");
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(away);
    // The response to the create is lost, so the Event of the first attempt exists at the second.
    let lost = Answer::code(504).after_commit().times(1);
    let faults = world.server.faults();
    faults.answer(Verb::Create, "events", lost).keep();
    let events = world.until("both are there", |e| e.len() == 2).await;
    assert!(events.iter().all(|event| event.series.is_none()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.stop().await;
    assert_eq!(world.events("default").await.len(), 2);
    assert_eq!(world.dropped("unreachable") + world.dropped("stopped"), 0);
}

/// EVENT-8: a stop sends the waiting Events and the counts of all series within the bound.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_in_its_bound_and_counts_what_is_left() {
    let world = World::new();
    let _hangs = world.server.faults().swallow_everything();
    for object in 0..10 {
        let site = config(&format!("site-{object}"));
        world.recorder.normal(&site, "A", "B", "hi");
        world.recorder.normal(&site, "A", "B", "hi");
    }
    let before = Instant::now();
    world.stop().await;
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    assert_eq!(world.dropped("stopped"), 20);
    world.recorder.normal(&config("late"), "A", "B", "hi");
    assert_eq!(world.dropped("stopped"), 21);
}

/// EVENT-8: a stop sends the waiting Events and the counts of all series within the bound.
#[tokio::test(start_paused = true)]
async fn a_publisher_that_is_dropped_sends_what_waits() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let World {
        recorder,
        publisher,
        ..
    } = World::over(server.clone(), client_config);
    recorder.normal(&config("site"), "A", "B", "hi");
    drop(publisher);
    recorder.normal(&config("site"), "A", "B", "hi");
    drop(recorder);
    let sent = steersman_testenv::eventually("the Event is there", || async {
        match server.list("events.events.k8s.io", "default") {
            events if events.len() == 1 => Ok(events),
            events => Err(format!("{events:?}")),
        }
    });
    assert_eq!(sent.await.unwrap()[0]["series"]["count"], 2);
}

/// EVENT-1: recording an event neither waits nor sends.
#[test]
fn events_that_are_recorded_outside_a_runtime_are_sent_inside_one() {
    let world = World::new();
    world.recorder.normal(&config("early"), "A", "B", "hi");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
    let events = runtime.block_on(async {
        world.stop().await;
        world.events("default").await
    });
    assert_eq!(events.len(), 1);
}
