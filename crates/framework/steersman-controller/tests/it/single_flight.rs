//! One request runs at most once at a time, and no event during its run is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};
use tokio::sync::Semaphore;

use crate::world::{World, record};

// WQ-1, WQ-2: events of a key arrive while it is reconciled.
#[tokio::test(start_paused = true)]
async fn events_during_a_run_cause_exactly_one_later_run_that_sees_them() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let running = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let reconciler = {
        let (gate, running) = (Arc::clone(&gate), Arc::clone(&running));
        reconcile::from_fn(move |ctx: Context, request: Request| {
            let (gate, running, note) = (Arc::clone(&gate), Arc::clone(&running), note.clone());
            async move {
                assert_eq!(
                    running.fetch_add(1, Ordering::SeqCst),
                    0,
                    "two runs at once"
                );
                let site = ctx.client().get::<Deployment>(&request.key).await?;
                let replicas = site.spec.as_ref().and_then(|spec| spec.replicas);
                note.note(&replicas.unwrap_or_default());
                gate.acquire().await?.forget();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Error>(Action::done())
            }
        })
    };
    let controller = Controller::builder::<Deployment>()
        .max_concurrent_reconciles(4)
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "1");
    for replicas in 2..=9 {
        world.scale("web", replicas);
    }
    // The run keeps the key until every event has arrived.
    assert!(runs.rest().await.is_empty());
    gate.add_permits(100);
    assert_eq!(
        runs.rest().await,
        ["9"],
        "exactly one later run, and it sees the last event"
    );
}

#[tokio::test(start_paused = true)]
async fn as_many_different_requests_run_at_once_as_there_are_workers() {
    let mut world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let gate = Arc::new(Semaphore::new(0));
    let reconciler = {
        let gate = Arc::clone(&gate);
        reconcile::from_fn(move |_: Context, request: Request| {
            let (gate, note) = (Arc::clone(&gate), note.clone());
            async move {
                note.note(&request);
                gate.acquire().await?.forget();
                Ok::<_, Error>(Action::done())
            }
        })
    };
    let controller = Controller::builder::<Deployment>()
        .max_concurrent_reconciles(3)
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await.len(), 3);
    let labels = r#"controller="deployment""#;
    assert_eq!(world.metric("active_workers", labels), "3");
    assert_eq!(world.metric("max_concurrent_reconciles", labels), "3");
    gate.add_permits(100);
    assert_eq!(runs.rest().await.len(), 1);
    assert_eq!(world.metric("active_workers", labels), "0");
}
