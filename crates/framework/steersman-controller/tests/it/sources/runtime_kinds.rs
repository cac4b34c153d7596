//! Watches of kinds that are known only at run time.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use steersman_controller::{Controller, Request, Watch, handler, predicate};
use steersman_object::{Gvk, Kind};

use crate::sources::optional::{install, monitor};
use crate::world::{World, record};

#[tokio::test(start_paused = true)]
async fn a_kind_by_value_is_owned_by_its_metadata_alone() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let kind = Kind::of::<ConfigMap>();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::owned_kind(kind.clone()))
        .build(note.reconciler())
        .unwrap();
    assert_eq!(controller.kinds(), [Kind::of::<Deployment>(), kind.clone()]);
    world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);
    world.own("pages", &["web", "other"]);
    assert_eq!(runs.rest().await, ["web"]);
    let reads = world.cache.of::<PartialObjectMeta<DynamicObject>>(&kind);
    assert!(reads.informers().unwrap()[0].untyped().is_metadata_only());
}

/// The kind comes from the server, and predicates see whole objects. The workers wait for its first sync, as
/// for that of any kind (CTRL-1).
#[tokio::test(start_paused = true)]
async fn a_kind_from_the_server_is_watched_as_dynamic_objects() {
    let mut world = World::new();
    install(&world);
    monitor(&world, "pages", "web");
    let (note, mut runs) = record();
    let gvk = Gvk::new("metrics.example.com", "v1", "Monitor");
    let kind = world.client.mapper().kind(&gvk).await.unwrap();
    let slow = std::time::Duration::from_secs(20);
    let delay = world
        .server
        .faults()
        .delay(None, "monitors.metrics.example.com", slow);
    let watched = predicate::object(|monitor: &DynamicObject| monitor.data["spec"]["path"] == "/");
    let controller = Controller::keyed::<Request>("monitors")
        .watch(Watch::kind::<DynamicObject>(kind, handler::itself()).filter(watched))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (name, at) = runs.next_at().await;
    assert_eq!(name, "pages");
    assert!(at >= slow.as_millis(), "{at}");
    drop(delay);
    let patch = json!({"spec": {"path": "/hidden"}});
    let monitors = "monitors.metrics.example.com";
    world
        .server
        .merge_patch(monitors, "default", "pages", &patch)
        .unwrap();
    assert!(runs.rest().await.is_empty());
    world.server.delete(monitors, "default", "pages").unwrap();
    assert_eq!(runs.rest().await, ["pages"]);
}

/// A kind by value that is not served yet.
#[tokio::test(start_paused = true)]
async fn an_optional_kind_by_value_is_watched_once_it_is_served() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let gvk = Gvk::new("metrics.example.com", "v1", "Monitor");
    let kind = Kind::new(gvk, "monitors", steersman_object::Scope::Namespaced);
    let controller = Controller::keyed::<Request>("monitors")
        .watch(Watch::kind::<DynamicObject>(kind, handler::itself()).optional())
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    world.start(controller);
    assert!(runs.rest().await.is_empty());
    assert!(!status.is_waiting());
    install(&world);
    monitor(&world, "pages", "web");
    assert_eq!(runs.rest().await, ["pages"]);
}
