//! Handlers that request the objects that name the event's object, by an index.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use steersman_cache::{ByObject, Cache, CacheOptions};
use steersman_controller::{Controller, handler};

use super::optional::Monitor;
use crate::world::{World, deployment, record};

/// The index of Deployments by the ConfigMaps, and of Namespaces by the ConfigMap, that an annotation names.
const CONFIG: &str = "example.com/config";

fn index(cache: &Cache) {
    let names = |config: &Option<String>| -> Vec<String> {
        let names = config.iter().flat_map(|names| names.split(','));
        names.map(str::to_owned).collect()
    };
    cache
        .index_values::<Deployment>(CONFIG, move |deployment| {
            let annotations = deployment.metadata.annotations.as_ref();
            names(&annotations.and_then(|all| all.get(CONFIG).cloned()))
        })
        .unwrap();
    cache
        .index_values::<Namespace>(CONFIG, move |namespace| {
            let annotations = namespace.metadata.annotations.as_ref();
            names(&annotations.and_then(|all| all.get(CONFIG).cloned()))
        })
        .unwrap();
}

/// Creates the namespaces `a` and `b`, each with a ConfigMap `pages` and with Deployments that name it.
fn fill(world: &World) {
    for namespace in ["a", "b"] {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            // Not the ConfigMap `pages` of some namespace.
            "metadata": {"name": namespace, "annotations": {CONFIG: "a/pages,pages"}},
        });
        world.server.create(object).unwrap();
        for (name, config) in [
            ("own", "pages"),
            ("others", "a/pages"),
            ("both", "more,pages,a/pages"),
            ("none", "page"),
        ] {
            let mut object = deployment(name);
            object["metadata"]["namespace"] = json!(namespace);
            object["metadata"]["annotations"] = json!({CONFIG: config});
            world.server.create(object).unwrap();
        }
        let pages = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "pages", "namespace": namespace},
        });
        world.server.create(pages).unwrap();
    }
}

fn touch(world: &World, namespace: &str) {
    let patch = json!({"data": {"index.html": "changed"}});
    world
        .server
        .merge_patch("configmaps", namespace, "pages", &patch)
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn whatever_the_scope_is_an_event_requests_the_objects_that_name_its_object() {
    let of_a = ["a/both", "a/others", "a/own", "b/both", "b/others"];
    let in_a = ["a/both", "a/others", "a/own"];
    let of_b = ["b/both", "b/own"];
    let only_a = ByObject::new().namespaces(["a"]);
    for (scope, options, by_a, by_b) in [
        ("the cluster", CacheOptions::new(), &of_a[..], &of_b[..]),
        (
            "one namespace",
            CacheOptions::new().default_namespaces(["a"]),
            &in_a,
            &[],
        ),
        (
            "several namespaces",
            CacheOptions::new().default_namespaces(["a", "b"]),
            &of_a,
            &of_b,
        ),
        (
            "one namespace of the kind that names",
            CacheOptions::new().by_object::<Deployment>(only_a),
            &in_a,
            &[],
        ),
    ] {
        let mut world = World::with_cache(options);
        fill(&world);
        index(&world.cache);
        let (note, mut runs) = record();
        let controller = Controller::builder::<Deployment>()
            .watches::<ConfigMap>(handler::indexed::<Deployment>(CONFIG))
            .build(note.reconciler())
            .unwrap();
        world.start(controller);
        runs.rest().await;
        for (namespace, requested) in [("a", by_a), ("b", by_b)] {
            touch(&world, namespace);
            let mut found = runs.rest().await;
            found.sort();
            assert_eq!(found, requested, "{scope}, the ConfigMap of {namespace}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_name_and_are_named() {
    let mut world = World::new();
    fill(&world);
    index(&world.cache);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Namespace>()
        .watches::<ConfigMap>(handler::indexed::<Namespace>(CONFIG))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (note, mut deployments) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<Namespace>(handler::indexed::<Deployment>(CONFIG))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    runs.rest().await;
    deployments.rest().await;
    touch(&world, "a");
    assert_eq!(runs.rest().await, ["a", "b"]);
    touch(&world, "b");
    assert!(runs.rest().await.is_empty());

    let page = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "page"}});
    world.server.create(page).unwrap();
    assert_eq!(deployments.rest().await, ["a/none", "b/none"]);
}

#[test]
fn an_index_that_is_missing_refuses_the_controller() {
    let (note, _runs) = record();
    let declare = |options: CacheOptions, index: &str| {
        let controller = Controller::builder::<Monitor>()
            .watches::<ConfigMap>(handler::indexed(index))
            .build(note.clone().reconciler())
            .unwrap();
        let cache = Cache::new(options).unwrap();
        cache.index_field::<Monitor>("path", |_| None).unwrap();
        controller.declare(&cache)
    };
    declare(CacheOptions::new(), "path").unwrap();
    let error = declare(CacheOptions::new().default_namespaces(["a", "b"]), "paths");
    let error = steersman_object::report(&error.unwrap_err()).to_string();
    let remedy = "register it with `Cache::index_field` before a controller that uses it is added";
    assert!(
        error.contains("Monitor") && error.contains("\"paths\"") && error.contains(remedy),
        "{error}"
    );
}
