//! Handlers with an asynchronous function.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::json;
use steersman_apiserver::faults::Answer;
use steersman_client::Client;
use steersman_controller::handler::EventHandler;
use steersman_controller::{Controller, Error, Primary, Watch, handler, predicate};
use steersman_object::{ListOptions, Object, ObjectKey, TypedObject};
use steersman_testenv::log::{CapturedLog, capture};

use super::optional::{Monitor, install, monitor};
use crate::world::{HOUR, World, record};

/// Creates a ConfigMap.
fn config(world: &World, name: &str, wait: &str) {
    world
        .server
        .create(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"wait": wait},
            "metadata": {"name": name, "namespace": "default"},
        }))
        .unwrap();
}

/// Waits as many seconds as a ConfigMap says, and returns its key.
async fn waiting(config: Arc<ConfigMap>) -> Result<Option<ObjectKey>, Error> {
    let data = config.data.as_ref().and_then(|data| data.get("wait"));
    let seconds: u64 = data.map_or(Ok(0), |text| text.parse())?;
    assert_ne!(seconds, 13, "an unlucky number");
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(Some(config.key()))
}

// CTRL-1, and the function reads with the client of the controller.
#[tokio::test(start_paused = true)]
async fn the_workers_start_after_the_function_has_returned_for_all_initial_objects() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.deploy(name);
    }
    config(&world, "pages", "7");
    let (note, mut runs) = record();
    let all = handler::mapped_async(|client: Client, config: Arc<ConfigMap>| async move {
        waiting(config).await?;
        let deployments = client.list::<Deployment>(&ListOptions::new()).await?;
        Ok(deployments
            .iter()
            .map(|deployment| deployment.key())
            .collect::<Vec<_>>())
    });
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(all)
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (_, at) = runs.next_at().await;
    assert!(at >= 7_000, "{at}");
    assert_eq!(
        runs.rest().await.len(),
        1,
        "each Deployment was one request"
    );
    world.annotate("configmaps", "pages", "changed");
    let mut told = runs.rest().await;
    told.sort();
    assert_eq!(told, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_waits_keeps_the_order_of_its_watch_and_delays_no_other() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::mapped_async(|_, config| waiting(config)))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert!(runs.rest().await.is_empty());
    config(&world, "slow", "20");
    config(&world, "quick", "0");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.deploy("other");
    assert_eq!(runs.next().await, "other", "the other watch goes on");
    assert_eq!(runs.rest().await, ["slow", "quick"]);
}

// CTRL-6: an error, a panic and a hang of the function.
#[tokio::test(start_paused = true)]
async fn a_function_that_fails_panics_or_hangs_costs_its_event_alone() {
    let log = capture();
    let mut world = World::new();
    let (note, mut runs) = record();
    let handler = handler::mapped_async(|_, config| waiting(config)).limit(Duration::from_secs(60));
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler)
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    let running = world.start(controller);
    for (name, wait) in [
        ("bad", "none"),
        ("worse", "13"),
        ("hung", "3600"),
        ("good", "1"),
    ] {
        config(&world, name, wait);
    }
    assert_eq!(runs.rest().await, ["good"]);
    assert_eq!((status.handler_errors(), status.handler_panics()), (2, 1));
    let last = status.last_handler_error().unwrap();
    assert_eq!((last.watch, last.key.name()), (1, "hung"));
    assert!(last.to_string().contains("took more than 60s"), "{last}");
    let errors = r#"steersman_controller_handler_errors_total{controller="deployment",name="ConfigMap.v1"} "#;
    assert_eq!(world.series(errors), "2");
    let text = log.text();
    for part in [
        "object=default/bad", "invalid digit", "object=default/worse", "an unlucky number",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!running.is_finished());
}

/// A limit of zero is no limit.
#[tokio::test(start_paused = true)]
async fn a_function_without_a_limit_may_take_hours() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let handler = handler::mapped_async(|_, config| waiting(config)).limit(Duration::ZERO);
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler)
        .build(note.reconciler())
        .unwrap();
    config(&world, "hours", "7200");
    world.start(controller);
    assert_eq!(runs.next().await, "hours");
}

/// Returns a handler that requests every object of a kind.
fn every<K: TypedObject>() -> impl EventHandler<ConfigMap, Primary<Deployment>> {
    handler::mapped_async(|client: Client, _: Arc<ConfigMap>| async move {
        let all = client.list::<K>(&ListOptions::new()).await?;
        Ok(all
            .iter()
            .map(|object| object.key())
            .collect::<Vec<ObjectKey>>())
    })
}

/// Returns the number of lines about a handler that waits. No event is lost.
fn waits(log: &CapturedLog) -> usize {
    let text = log.text();
    assert!(!text.contains("the event is lost"), "{text}");
    text.matches("a handler waits for the first sync").count()
}

// CTRL-43
#[tokio::test(start_paused = true)]
async fn a_function_waits_for_a_missing_kind_that_it_reads_and_no_event_is_lost() {
    let log = capture();
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        config(&world, name, "0");
    }
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .owns::<Monitor>()
        .watches::<ConfigMap>(every::<Monitor>())
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    world.start(controller);
    tokio::time::sleep(Duration::from_secs(600)).await;
    config(&world, "d", "0");
    assert!(runs.rest().await.is_empty() && status.is_waiting());
    // Once: the controller itself says each minute what it waits for.
    assert_eq!(waits(&log), 1, "{}", log.text());
    let line = log.text();
    let line = line.lines().find(|line| line.contains("a handler waits"));
    assert!(
        line.is_some_and(|line| line.contains("object=default/a") && line.contains("monitors")),
        "{line:?}"
    );

    install(&world);
    monitor(&world, "site", "web");
    let mut requested = runs.rest().await;
    requested.sort();
    assert_eq!(requested, ["site", "web"]);
    assert_eq!((status.handler_errors(), waits(&log)), (0, 1));
    config(&world, "e", "0");
    assert_eq!(runs.rest().await, ["site"]);
}

// CTRL-43: a kind that nothing declares, also if its informer ends while the handler waits.
#[tokio::test(start_paused = true)]
async fn a_function_waits_for_an_undeclared_kind_with_a_line_each_minute_unless_it_is_not_served() {
    let log = capture();
    let mut world = World::new();
    let forbidden = Answer::code(403).message("no such right");
    let fault = world.server.faults().answer(None, "services", forbidden);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]},
        "metadata": {"name": "web", "namespace": "default"},
    });
    world.server.create(service).unwrap();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(every::<Service>())
        .watch(
            Watch::of::<ConfigMap>(every::<Monitor>()).filter(predicate::object(
                |config: &ConfigMap| config.metadata.name.as_deref() == Some("m"),
            )),
        )
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    world.start(controller);
    assert!(runs.rest().await.is_empty());
    config(&world, "a", "0");
    tokio::time::sleep(Duration::from_secs(10 * 60 + 1)).await;
    assert_eq!(waits(&log), 11, "{}", log.text());
    tokio::time::sleep(HOUR).await;
    assert!(runs.seen_nothing_more());
    drop(fault);
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(status.handler_errors(), 0);

    config(&world, "m", "0");
    assert_eq!(runs.rest().await, ["web"], "the other watch goes on");
    let error = status.last_handler_error().unwrap();
    assert_eq!((error.watch, error.key.name()), (2, "m"));
}

// CTRL-43: the limit of a function is none of a first sync.
#[tokio::test(start_paused = true)]
async fn a_first_sync_that_takes_longer_than_the_limit_of_a_function_costs_no_event() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    config(&world, "a", "0");
    let slow = Duration::from_secs(20);
    let _delay = world.server.faults().delay(None, "deployments", slow);
    let (note, mut runs) = record();
    let other = handler::mapped_async(|client: Client, config: Arc<ConfigMap>| async move {
        client.list::<Deployment>(&ListOptions::new()).await?;
        Ok([config.key()])
    });
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(other.limit(Duration::from_secs(5)))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let mut requested = runs.rest().await;
    requested.sort();
    assert_eq!(requested, ["a", "web"]);
    assert_eq!(waits(&log), 1, "{}", log.text());
}
