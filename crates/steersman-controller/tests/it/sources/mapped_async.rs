//! Handlers with an asynchronous function.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_client::Client;
use steersman_controller::{Controller, Error, handler};
use steersman_object::{Object, ObjectKey, Selection};
use steersman_testenv::log::capture;

use crate::world::{World, record};

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
        let deployments = client.list::<Deployment>(&Selection::new()).await?;
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
        "object=default/bad",
        "invalid digit",
        "object=default/worse",
        "an unlucky number",
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
