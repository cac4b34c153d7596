//! The stop of a controller: running reconciles may finish, and waiting requests are dropped.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::faults::Verb;
use steersman_client::RequestId;
use steersman_controller::{
    Action, Context, Controller, ControllerError, Error, Request, reconcile,
};
use steersman_object::ObjectKey;
use steersman_testenv::log::capture;
use tokio::time::Instant;

use crate::world::{World, record};

#[tokio::test(start_paused = true)]
async fn running_reconciles_finish_within_the_grace_and_waiting_requests_are_dropped() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        let note = note.clone();
        async move {
            note.note(&"began");
            ctx.cancelled().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            note.note(&"finished");
            Ok::<_, Error>(Action::done())
        }
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.next().await, "began");
    let start = Instant::now();
    world.cancel.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(runs.next().await, "finished");
    assert!(runs.seen_nothing_more());
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_outlast_the_grace_are_dropped() {
    let mut world = World::new();
    world.grace = Duration::from_secs(7);
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |_: Context, _: Request| {
        note.note(&"began");
        std::future::pending::<Result<Action, Error>>()
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.next().await, "began");
    let start = Instant::now();
    world.cancel.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    let ControllerError::StillRunning { requests, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(requests, &["default/web"], "{error}");
    assert!(error.to_string().contains(r#""deployment""#), "{error}");
    assert_eq!(
        world.metric("active_workers", r#"controller="deployment""#),
        "0"
    );
}

// CLIENT-7
#[tokio::test(start_paused = true)]
async fn the_stop_waits_for_the_write_of_a_dropped_reconcile() {
    let mut world = World::new();
    world.deploy("web");
    let slow = Duration::from_secs(4);
    world
        .server
        .faults()
        .delay(Verb::Create, "configmaps", slow)
        .keep();
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let note = note.clone();
        async move {
            let behalf = RequestId::new(ctx.controller(), request.clone());
            assert_eq!(ctx.client().request(), Some(&behalf));
            note.note(&"began");
            let config = ConfigMap {
                metadata: request.key.to_meta(),
                ..ConfigMap::default()
            };
            tokio::select! {
                created = ctx.client().create(&config) => drop(created?),
                () = ctx.cancelled() => {}
            }
            Ok::<_, Error>(Action::done())
        }
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.next().await, "began");
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.cancel.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), slow);
    assert!(world.server.get("configmaps", "default", "web").is_some());
}

// CTRL-9
#[tokio::test(start_paused = true)]
async fn a_stopping_controller_waits_for_its_own_writes_only() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    world
        .server
        .faults()
        .delay(Verb::Create, "configmaps", crate::world::HOUR)
        .keep();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.next().await, "web");
    // A write over the same client, and one over another client that counts apart.
    for client in [world.client.clone(), world.client.counting_apart()] {
        let config = ConfigMap {
            metadata: ObjectKey::namespaced("default", "slow").to_meta(),
            ..ConfigMap::default()
        };
        tokio::spawn(async move { client.create(&config).await });
    }
    world
        .server
        .requests()
        .wait_for(2, |r| r.does(Verb::Create))
        .await;
    let start = Instant::now();
    world.cancel.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!log.text().contains("on its way"), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_for_sync_is_no_error() {
    let mut world = World::new();
    world
        .server
        .faults()
        .delay(None, "deployments.apps", crate::world::HOUR)
        .keep();
    let controller = Controller::builder::<Deployment>()
        .build(record().0.reconciler())
        .unwrap();
    let running = world.start(controller);
    tokio::task::yield_now().await;
    world.cancel.cancel();
    running.await.unwrap().unwrap();
}
