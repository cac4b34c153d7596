//! Workers start only after every watch has handed its initial set to the queue.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::faults::Answer;
use steersman_controller::Controller;
use steersman_testenv::log::capture;
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

// One source never syncs: a controller with a limit ends with an error, and controllers of other kinds go on.
#[tokio::test(start_paused = true)]
async fn a_required_kind_that_never_syncs_ends_only_its_controller() {
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
        .require_sync(Duration::from_secs(90))
        .build(never.reconciler())
        .unwrap();
    let status = owner.status();
    let alone = Controller::builder::<Deployment>()
        .build(note.reconciler())
        .unwrap();
    let start = Instant::now();
    let owner = world.start(owner);
    let alone = world.start(alone);
    assert_eq!(runs.next().await, "web");
    assert!(status.is_waiting());
    // Without the limit, `owner` would never end.
    let error = tokio::time::timeout(Duration::from_secs(600), owner)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 90);
    assert!(!status.is_waiting());
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

// CTRL-7
#[tokio::test(start_paused = true)]
async fn a_controller_waits_for_a_forbidden_kind_with_a_log_line_each_minute() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    let forbidden = Answer::code(403).message("configmaps is forbidden: no such right");
    let fault = world.server.faults().answer(None, "configmaps", forbidden);
    let (note, mut runs) = record();
    let owner = Controller::builder::<Deployment>()
        .name("owner")
        .owns::<ConfigMap>()
        // The longest limit means no limit.
        .require_sync(Duration::MAX)
        .build(note.reconciler())
        .unwrap();
    let status = owner.status();
    let running = world.start(owner);
    tokio::time::sleep(Duration::from_secs(10 * 60 + 1)).await;
    assert!(runs.seen_nothing_more());
    assert!(!running.is_finished());

    let waits = "the controller waits for the first sync";
    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(waits)).collect();
    assert_eq!(lines.len(), 10, "{text}");
    for part in [
        "WARN",
        "controller=\"owner\"",
        "configmaps could not be cached",
        "no such right",
        r#"resources: ["configmaps"], verbs: [get, list, watch]}"#,
    ] {
        assert!(lines[9].contains(part), "{part:?} is not in {}", lines[9]);
    }
    let waiting_for = status.waiting_for();
    assert_eq!(waiting_for.len(), 1);
    assert!(waiting_for[0].is_forbidden() && waiting_for[0].remedy.is_some());
    let waiting = "steersman_controller_waiting{controller=\"owner\",name=\"ConfigMap.v1\",\
                   reason=\"forbidden\"} ";
    assert_eq!(world.series(waiting), "1");

    drop(fault);
    assert_eq!(runs.next().await, "web");
    assert!(!status.is_waiting() && status.waiting_for().is_empty());
    assert!(world.series(waiting).starts_with("no "));
    let text = log.text();
    assert!(
        text.contains("every kind that the controller waited for has synced"),
        "{text}"
    );
}
