//! Watches of a kind that comes and goes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_apiserver::faults::Answer;
use steersman_controller::{Controller, Watch, handler};
use steersman_object::Kind;
use steersman_testenv::log::capture;

use crate::world::{HOUR, World, owner_reference, record};

const MONITORS: &str = "monitors.metrics.example.com";
const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A kind of another project.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "metrics.example.com",
    version = "v1",
    kind = "Monitor",
    namespaced
)]
#[kube(crates(kube_core = "::kube_core"))]
pub(crate) struct MonitorSpec {
    path: String,
}

pub(crate) fn install(world: &World) {
    let definition = serde_json::to_value(Monitor::crd()).unwrap();
    world.server.install_crd(definition).unwrap();
}

/// Creates a Monitor that a Deployment controls.
pub(crate) fn monitor(world: &World, name: &str, owner: &str) {
    world
        .server
        .create(json!({
            "apiVersion": "metrics.example.com/v1", "kind": "Monitor", "spec": {"path": "/"},
            "metadata": {
                "name": name, "namespace": "default", "ownerReferences": [owner_reference(owner, true)],
            },
        }))
        .unwrap();
}

/// Scenario 17: absent, installed, deleted, installed again.
#[tokio::test(start_paused = true)]
async fn an_optional_kind_is_watched_while_its_definition_exists_and_delays_nothing() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::owned::<Monitor>().optional())
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    let running = world.start(controller);
    let (name, at) = runs.next_at().await;
    assert_eq!(
        (name.as_str(), at),
        ("web", 0),
        "the workers wait for nothing"
    );
    assert!(runs.rest().await.is_empty());
    assert!(!status.is_waiting() && world.cache.informer_failures().is_empty());
    assert_eq!(world.server.requests().count(|r| r.is_for(MONITORS)), 0);
    let lines = |text: &str| {
        let log = log.text();
        let lines = log.lines().filter(|line| line.contains(text));
        lines.filter(|line| line.contains("INFO")).count()
    };
    assert_eq!(
        lines("does not serve an optional kind"),
        1,
        "{}",
        log.text()
    );

    for round in 1..=2 {
        install(&world);
        monitor(&world, "pages", "web");
        assert_eq!(runs.rest().await, ["web"]);
        assert_eq!(lines("its watch begins"), round);
        assert_eq!(world.server.faults().open_watches(MONITORS), 1);

        // The server deletes the objects first, which are events of the watch.
        world.server.delete(CRDS, "", MONITORS).unwrap();
        assert_eq!(runs.next().await, "web");
        // The wait is shorter than the linger of an idle informer.
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(lines("its watch ends"), round);
        assert!(world.cache.informer_failures().is_empty());
        assert_eq!(world.cache.informer_reports().len(), 1);
        let before = world.server.requests().count(|r| r.is_for(MONITORS));
        assert!(runs.rest().await.is_empty());
        let asked = world.server.requests().count(|r| r.is_for(MONITORS)) - before;
        assert_eq!(asked, 0, "no informer lists a missing kind");
    }
    assert!(!log.text().contains("ERROR"), "{}", log.text());
    assert!(!running.is_finished());
}

// SRC-4: the server removes the objects while the watch is away.
#[tokio::test(start_paused = true)]
async fn objects_that_disappear_unseen_with_their_kind_are_handled_as_deleted() {
    let mut world = World::new();
    install(&world);
    monitor(&world, "pages", "web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::owned::<Monitor>().optional())
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["web"], "the Monitor names its owner");
    assert_eq!(world.server.faults().silence_watches_of(MONITORS), 1);
    world.server.delete(CRDS, "", MONITORS).unwrap();
    world.server.faults().cut_watches();
    assert_eq!(runs.rest().await, ["web"]);
    assert!(world.cache.informer_failures().is_empty());
}

/// An optional kind that another controller requires keeps its informer, and the other controller waits.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_optional_watch_leaves_the_informer_of_another_controller_alone() {
    let mut world = World::new();
    install(&world);
    let (note, mut runs) = record();
    let (other, mut other_runs) = record();
    let optional = Controller::builder::<Deployment>()
        .watch(Watch::of::<Monitor>(handler::itself()).optional())
        .build(note.reconciler())
        .unwrap();
    let requires = Controller::builder::<Monitor>()
        .build(other.reconciler())
        .unwrap();
    let (first, second) = (world.start(optional), world.start(requires));
    monitor(&world, "pages", "web");
    assert_eq!(runs.rest().await, ["pages"]);
    assert_eq!(other_runs.rest().await, ["pages"]);
    assert_eq!(world.server.requests().watch_lists(MONITORS), 1);
    world.server.delete(CRDS, "", MONITORS).unwrap();
    assert_eq!(runs.rest().await, ["pages"]);
    assert_eq!(other_runs.rest().await, ["pages"]);
    assert_eq!(
        world.cache.informer_failures().len(),
        1,
        "the other controller requires the kind"
    );

    install(&world);
    monitor(&world, "more", "web");
    assert_eq!(runs.rest().await, ["more"]);
    assert_eq!(other_runs.rest().await, ["more"]);
    assert!(!first.is_finished() && !second.is_finished());
}

/// A 404 alone ends no watch, because it may come from a proxy or a server that is starting.
#[tokio::test(start_paused = true)]
async fn a_404_that_discovery_does_not_confirm_ends_no_watch() {
    let log = capture();
    let mut world = World::new();
    install(&world);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::of::<Monitor>(handler::itself()).optional())
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    monitor(&world, "pages", "web");
    assert_eq!(runs.rest().await, ["pages"]);
    let missing = world
        .server
        .faults()
        .answer(None, MONITORS, Answer::code(404));
    world.server.faults().cut_watches();
    world.server.compact();
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.cache.informer_failures().len(), 1);
    drop(missing);
    monitor(&world, "more", "web");
    assert_eq!(runs.rest().await, ["more"]);
    assert!(!log.text().contains("its watch ends"), "{}", log.text());
    assert_eq!(world.cache.unsynced(&Kind::of::<Monitor>()), []);
}
