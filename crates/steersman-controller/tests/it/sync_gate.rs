//! Workers start only after every watch has handed its initial set to the queue.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::faults::Answer;
use steersman_controller::Controller;
use tokio::time::Instant;

use crate::world::{World, record};

// CTRL-1
#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_slowest_watch_has_synced() {
    let mut world = World::new();
    world.deploy("web");
    world.own("pages", &["web"]);
    let slow = Duration::from_secs(30);
    let delay = world.server.faults().delay(None, "configmaps", slow);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .owns::<ConfigMap>()
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (name, at) = runs.next_at().await;
    assert_eq!(name, "web");
    assert!(at >= slow.as_millis(), "{at}");
    drop(delay);
    assert!(
        runs.rest().await.is_empty(),
        "both initial sets were one request"
    );
}

// Scenario: one source never syncs: a typed error after the timeout, others unaffected.
#[tokio::test(start_paused = true)]
async fn a_kind_that_never_syncs_ends_its_controller_and_no_other() {
    let mut world = World::new();
    world.deploy("web");
    let forbidden = Answer::code(403).message("configmaps is forbidden: no such right");
    world
        .server
        .faults()
        .answer(None, "configmaps", forbidden)
        .keep();
    let (never, mut never_runs) = record();
    let (note, mut runs) = record();
    let owner = Controller::builder::<Deployment>()
        .name("owner")
        .owns::<ConfigMap>()
        .build(never.reconciler())
        .unwrap();
    let alone = Controller::builder::<Deployment>()
        .build(note.reconciler())
        .unwrap();
    let start = Instant::now();
    let owner = world.start(owner);
    let alone = world.start(alone);
    assert_eq!(runs.next().await, "web");
    // A controller without its gate would never end.
    let error = tokio::time::timeout(Duration::from_secs(600), owner)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 120);
    assert!(error.is_sync_timeout());
    assert_eq!(
        error.kind().map(|kind| kind.gvk().kind()),
        Some("ConfigMap")
    );
    let text = error.to_string();
    assert!(
        text.contains("\"owner\"") && text.contains("no such right"),
        "{text}"
    );
    assert!(never_runs.seen_nothing_more());
    assert!(!alone.is_finished());
}
