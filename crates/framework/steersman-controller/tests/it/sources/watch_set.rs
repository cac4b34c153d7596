//! Watches that are added and removed while controllers run.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::DynamicObject;
use parking_lot::Mutex;
use steersman_controller::{
    Action, Context, Controller, Error, Request, Watch, WatchSet, handler, predicate, reconcile,
};
use steersman_object::{Gvk, Kind, Scope};

use crate::sources::optional::{install, monitor};
use crate::world::{HOUR, World, record};

const MONITORS: &str = "monitors.metrics.example.com";

fn monitors() -> Kind {
    let gvk = Gvk::new("metrics.example.com", "v1", "Monitor");
    Kind::new(gvk, "monitors", Scope::Namespaced)
}

// SRC-5
#[tokio::test(start_paused = true)]
async fn a_watch_is_added_to_and_removed_from_a_running_controller() {
    let mut world = World::new();
    world.deploy("web");
    world.own("pages", &["web"]);
    let (note, mut runs) = record();
    let watches = WatchSet::new();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::set(&watches))
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(world.server.requests().watch_lists("configmaps"), 0);

    let owner = handler::owner::<Deployment>();
    let added =
        watches.add(Watch::of::<ConfigMap>(owner).filter(predicate::resource_version_changed()));
    assert_eq!(added.kind(), &Kind::of::<ConfigMap>());
    assert_eq!(runs.rest().await, ["web"], "the existing ConfigMap");
    world.annotate("configmaps", "pages", "1");
    assert_eq!(runs.rest().await, ["web"]);

    added.remove();
    world.annotate("configmaps", "pages", "2");
    assert!(runs.rest().await.is_empty());
    assert_eq!(
        world.server.faults().open_watches("configmaps"),
        0,
        "it ended as idle"
    );
    let again = watches.add(Watch::of::<ConfigMap>(handler::owner::<Deployment>()));
    assert_eq!(runs.rest().await, ["web"]);
    again.keep();
    world.annotate("configmaps", "pages", "3");
    assert_eq!(runs.rest().await, ["web"]);
    assert!(!running.is_finished());
}

/// A set outlives its controllers, serves several, and holds what is added before they start.
#[tokio::test(start_paused = true)]
async fn every_controller_of_a_set_begins_the_watches_that_are_in_the_set_at_its_start() {
    let mut world = World::new();
    world.own("pages", &["web"]);
    let watches = WatchSet::new();
    let removed = watches.add(Watch::of::<ConfigMap>(handler::mapped(|_: &ConfigMap| {
        [steersman_object::ObjectKey::namespaced(
            "default", "removed",
        )]
    })));
    let _added = watches.add(Watch::of::<ConfigMap>(handler::owner::<Deployment>()));
    drop(removed);
    let mut controllers = Vec::new();
    for name in ["one", "two"] {
        let (note, runs) = record();
        let controller = Controller::builder::<Deployment>()
            .name(name)
            .watch(Watch::set(&watches))
            .build(note.reconciler())
            .unwrap();
        controllers.push((world.start(controller), runs));
    }
    for (running, runs) in &mut controllers {
        assert_eq!(runs.rest().await, ["web"]);
        assert!(!running.is_finished());
    }
    assert_eq!(world.server.requests().watch_lists("configmaps"), 1);
}

/// A reconciler adds the watch of a kind that its object names.
#[tokio::test(start_paused = true)]
async fn a_reconciler_adds_the_watch_of_a_kind_that_need_not_be_served_yet() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let watches = WatchSet::new();
    let reconciler = reconcile::from_fn({
        let watches = watches.clone();
        move |_: Context, request: Request| {
            note.note(&request);
            if watches.kinds().is_empty() {
                let handler = handler::owner::<Deployment>();
                watches
                    .add(Watch::kind::<DynamicObject>(monitors(), handler))
                    .keep();
            }
            std::future::ready(Ok::<_, Error>(Action::done()))
        }
    });
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::set(&watches))
        .build(reconciler)
        .unwrap();
    world.start(controller);
    world.deploy("web");
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(watches.kinds(), [monitors()]);
    assert!(world.cache.informer_failures().is_empty());
    install(&world);
    monitor(&world, "pages", "web");
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(world.server.faults().open_watches(MONITORS), 1);
}

/// SRC-5: after a removal no event reaches the handler, also not one that waits in the mailbox.
#[tokio::test(start_paused = true)]
async fn a_removed_watch_calls_its_handler_no_more() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let watches = WatchSet::new();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::set(&watches))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (called, mut calls) = record();
    let slow = handler::mapped_async(move |_, config: Arc<ConfigMap>| {
        let called = called.clone();
        async move {
            called.note(&config.metadata.name.clone().unwrap_or_default());
            tokio::time::sleep(HOUR / 4).await;
            Ok([Request::from(steersman_object::ObjectKey::namespaced(
                "default", "late",
            ))])
        }
    });
    let added = watches.add(Watch::of::<ConfigMap>(slow.limit(HOUR)));
    for name in ["first", "second"] {
        world.own(name, &["web"]);
    }
    assert_eq!(calls.next().await, "first");
    drop(added);
    tokio::time::sleep(HOUR).await;
    assert!(calls.seen_nothing_more());
    assert!(runs.rest().await.is_empty());
}

/// SRC-5: a task handles several events in one turn.
#[tokio::test(start_paused = true)]
async fn a_handler_that_removes_its_own_watch_is_not_called_for_the_events_that_wait() {
    let mut world = World::new();
    for name in ["first", "second", "third"] {
        world.own(name, &["web"]);
    }
    let (note, mut runs) = record();
    let watches = WatchSet::new();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::set(&watches))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (called, mut calls) = record();
    let own = Arc::new(Mutex::new(None));
    let (remove, notes) = (Arc::clone(&own), called.clone());
    let added = watches.add(Watch::of::<ConfigMap>(handler::mapped(
        move |config: &ConfigMap| {
            notes.note(&config.metadata.name.clone().unwrap_or_default());
            drop(remove.lock().take());
            [steersman_object::ObjectKey::namespaced("default", "web")]
        },
    )));
    *own.lock() = Some(added);
    assert_eq!(calls.rest().await, ["first"]);
    assert_eq!(runs.rest().await, ["web"], "the request of the only call");
    drop(called);
}
