//! Objects that a rule of a pause keeps from the reconciler.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_apiserver::faults::Verb;
use steersman_cache::CacheOptions;
use steersman_controller::{Controller, ControllerStatus, pause, predicate};

use crate::sites::Site;
use crate::world::{World, record};

const NOTE: &str = "example.com/note";

// CTRL-32
#[tokio::test(start_paused = true)]
async fn a_paused_object_is_not_reconciled_until_its_mark_goes() {
    let mut world = World::new();
    for name in ["other", "web"] {
        world.deploy(name);
    }
    world.annotate("deployments.apps", "web", "paused by hand");
    let (note, mut runs) = record();
    // The end of the pause is an update that this predicate refuses.
    let controller = Controller::builder::<Deployment>()
        .with_predicates(predicate::generation_changed())
        .owns::<ConfigMap>()
        .pause_when(pause::annotation(NOTE))
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    world.start(controller);
    assert_eq!(runs.rest().await, ["other"]);
    let paused = |world: &World| {
        world.series(r#"steersman_controller_paused_objects{controller="deployment"} "#)
    };
    assert_eq!(paused(&world), "1");
    let keys = status.paused_objects();
    assert_eq!(
        keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["default/web"]
    );

    // Neither events of a paused object nor those of its children reach the reconciler.
    world.scale("web", 2);
    world.own("child", &["web"]);
    assert!(runs.rest().await.is_empty());

    world.annotate("deployments.apps", "web", "false");
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(paused(&world), "0");

    // A paused object that is gone is not counted.
    world.annotate("deployments.apps", "web", "true");
    assert!(runs.rest().await.is_empty());
    assert_eq!(paused(&world), "1");
    world
        .server
        .delete("deployments.apps", "default", "web")
        .unwrap();
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(paused(&world), "0");
}

/// Returns the number of paused objects in the metric and in the status.
fn paused(world: &World, status: &ControllerStatus) -> (String, usize) {
    let series = r#"steersman_controller_paused_objects{controller="deployment"} "#;
    (world.series(series), status.paused_objects().len())
}

#[tokio::test(start_paused = true)]
async fn an_object_is_not_counted_as_paused_after_a_delete_that_a_filter_refuses() {
    let mut world = World::new();
    for name in ["one", "two"] {
        world.deploy(name);
        world.annotate("deployments.apps", name, "paused");
    }
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .with_event_filter(|event| !event.is_delete)
        .pause_when(pause::annotation(NOTE))
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    let running = world.start(controller);
    assert!(runs.rest().await.is_empty());
    assert_eq!(paused(&world, &status), ("2".to_owned(), 2));
    world
        .server
        .delete("deployments.apps", "default", "one")
        .unwrap();
    assert!(runs.rest().await.is_empty());
    assert_eq!(paused(&world, &status), ("1".to_owned(), 1));
    // After the end of the controller the numbers stay.
    world.cancel.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(paused(&world, &status), ("1".to_owned(), 1));
}

// CTRL-42
#[tokio::test(start_paused = true)]
async fn an_object_of_a_removed_namespace_is_not_counted_as_paused() {
    let cache = CacheOptions::new().default_namespaces(["default", "other"]);
    let mut world = World::with_cache(cache);
    world.deploy("web");
    world.annotate("deployments.apps", "web", "paused");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .pause_when(pause::annotation(NOTE))
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    world.start(controller);
    assert!(runs.rest().await.is_empty());
    assert_eq!(paused(&world, &status), ("1".to_owned(), 1));
    world.cache.remove_namespace("default").unwrap();
    assert_eq!(paused(&world, &status), ("0".to_owned(), 0));
    world.cache.add_namespace("default").unwrap();
    assert!(runs.rest().await.is_empty());
    assert_eq!(paused(&world, &status), ("1".to_owned(), 1));
}

// CTRL-32
#[tokio::test(start_paused = true)]
async fn a_pause_is_reported_as_a_condition_while_it_lasts() {
    let mut world = World::with_sites();
    world.site("shop", &[]);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Site>()
        .pause_when(pause::annotation(NOTE))
        .pause_when(|site: &Site| site.spec.suspend)
        .report_pause()
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["shop"]);
    let writes = |world: &World| world.server.requests().count(|r| r.does(Verb::Patch));
    assert_eq!(
        writes(&world),
        0,
        "an object that was never paused is not written"
    );

    world.change_site("shop", &json!({"spec": {"suspend": true}}));
    assert!(runs.rest().await.is_empty());
    let expected = ["Paused=True Paused: the object is not reconciled until the pause ends"];
    assert_eq!(world.conditions("shop"), expected);
    // A second rule pauses the object too, so that the end of the first rule is not the end of the pause.
    world.annotate("sites.example.com", "shop", "paused");
    world.change_site("shop", &json!({"spec": {"suspend": false}}));
    assert!(runs.rest().await.is_empty());
    assert_eq!(
        writes(&world),
        2,
        "the condition follows the generation of the spec"
    );

    world.annotate("sites.example.com", "shop", "false");
    let resumed = runs.rest().await;
    assert!(!resumed.is_empty());
    assert!(world.conditions("shop").is_empty());
    assert_eq!(writes(&world), 3);
}
