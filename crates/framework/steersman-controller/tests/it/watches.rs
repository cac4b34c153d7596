//! Watches: predicates, owners, mappings, and requests from outside the cluster.

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::{Registry, TextEncoder};
use serde_json::json;
use steersman_api::kube_client::core::PartialObjectMeta;
use steersman_cache::{CacheMetrics, CacheOptions};
use steersman_controller::{
    Action, Context, Controller, Error, Request, Watch, handler, predicate, reconcile,
};
use steersman_object::ObjectKey;

use crate::world::{World, owner_reference, record};

// Two watches have separate predicates, and no predicate hides a delete.
#[tokio::test(start_paused = true)]
async fn predicates_belong_to_one_watch_and_never_hide_a_delete() {
    let mut world = World::new();
    world.deploy("web");
    world.own("pages", &["web"]);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .with_predicates(predicate::generation_changed())
        .watch(Watch::owned::<ConfigMap>().filter(predicate::labels_changed()))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);

    world.annotate("deployments.apps", "web", "1");
    assert!(
        runs.rest().await.is_empty(),
        "no change of the primary's generation"
    );
    world.scale("web", 2);
    assert_eq!(runs.rest().await, ["web"]);

    world.annotate("configmaps", "pages", "1");
    assert!(
        runs.rest().await.is_empty(),
        "no change of the child's labels"
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world
        .server
        .merge_patch("configmaps", "default", "pages", &label)
        .unwrap();
    assert_eq!(runs.rest().await, ["web"]);

    world
        .server
        .delete("configmaps", "default", "pages")
        .unwrap();
    assert_eq!(runs.rest().await, ["web"]);
    world
        .server
        .delete("deployments.apps", "default", "web")
        .unwrap();
    assert_eq!(runs.rest().await, ["web"]);
}

// A child that moves requests its former owner too.
#[tokio::test(start_paused = true)]
async fn a_child_that_moves_requests_both_owners() {
    let mut world = World::new();
    for name in ["from", "to", "other"] {
        world.deploy(name);
    }
    world.own("pages", &["from", "other"]);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .with_predicates(predicate::generation_changed())
        .owns::<ConfigMap>()
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await.len(), 3);
    let patch = json!({"metadata": {"ownerReferences": [owner_reference("to", true)]}});
    world
        .server
        .merge_patch("configmaps", "default", "pages", &patch)
        .unwrap();
    let mut requests = runs.rest().await;
    requests.sort();
    assert_eq!(
        requests,
        ["from", "to"],
        "not the owner that does not control"
    );
}

// Like controller-runtime's `OnlyMetadata`: the server is asked for metadata only.
#[tokio::test(start_paused = true)]
async fn owners_are_found_by_metadata_alone() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .owns::<PartialObjectMeta<ConfigMap>>()
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);
    world.own("pages", &["web"]);
    assert_eq!(runs.rest().await, ["web"]);
    let informers = world.cache.metadata::<ConfigMap>().informers().unwrap();
    assert!(informers[0].untyped().is_metadata_only());
}

// An owned object is deleted while the watch is away.
#[tokio::test(start_paused = true)]
async fn a_delete_that_was_missed_requests_the_owner() {
    let mut world = World::new();
    world.deploy("web");
    world.own("pages", &["web"]);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::owned::<ConfigMap>().filter(predicate::generation_changed()))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);
    world.server.faults().cut_watches();
    world
        .server
        .delete("configmaps", "default", "pages")
        .unwrap();
    world.server.compact();
    assert_eq!(runs.rest().await, ["web"]);
    assert_eq!(
        world.metric("reconcile_errors_total", r#"controller="deployment""#),
        "0"
    );
}

#[tokio::test(start_paused = true)]
async fn mappings_streams_and_a_filter_over_all_watches_work_together() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let (send, requests) = futures::channel::mpsc::unbounded::<&str>();
    let key = |name: &str| ObjectKey::namespaced("default", name);
    let users = move |config: &ConfigMap| {
        let users = config
            .data
            .as_ref()
            .and_then(|data| data.get("users"))
            .cloned();
        let users = users.unwrap_or_default();
        users.split_whitespace().map(key).collect::<Vec<_>>()
    };
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::mapped(users))
        .with_event_filter(|event| event.key.name() != "hidden")
        .watch(Watch::requests(
            requests.map(move |name| Request::new(key(name))),
        ))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await.len(), 2);

    let config = |name: &str, users: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"users": users},
            "metadata": {"name": name, "namespace": "default"},
        })
    };
    world.server.create(config("pages", "a")).unwrap();
    assert_eq!(runs.rest().await, ["a"]);
    let patch = json!({"data": {"users": "b c"}});
    world
        .server
        .merge_patch("configmaps", "default", "pages", &patch)
        .unwrap();
    assert_eq!(runs.rest().await, ["a", "b", "c"]);
    world.server.create(config("hidden", "a b c")).unwrap();
    world.deploy("hidden");
    assert!(runs.rest().await.is_empty());

    send.unbounded_send("from-a-stream").unwrap();
    assert_eq!(runs.rest().await, ["from-a-stream"]);
    drop(send);
    world.scale("b", 3);
    assert_eq!(runs.rest().await, ["b"], "the end of a stream is no fault");
}

// A request type of its own: all Deployments of a namespace are one request.
#[tokio::test(start_paused = true)]
async fn a_controller_may_have_requests_of_its_own_type() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |_: Context, namespace: String| {
        note.note(&format!("namespace {namespace}"));
        std::future::ready(Ok::<_, Error>(Action::done()))
    });
    let controller = Controller::keyed::<String>("namespaces")
        .watches::<Deployment>(handler::mapped(|deployment: &Deployment| {
            deployment.metadata.namespace.clone()
        }))
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["namespace default"]);
}

// The task that delivers events compares the objects of an update; a cache without a budget holds the former object
// packed.
#[tokio::test(start_paused = true)]
async fn an_update_of_the_status_decodes_no_object_again() {
    let registry = Registry::new();
    let metrics = CacheMetrics::register(&registry).unwrap();
    let cache = CacheOptions::new().decoded_budget(0).metrics(metrics);
    let mut world = World::with_cache(cache);
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["web"]);
    let unpacks = || {
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.unwrap();
        let mut series = text
            .lines()
            .filter(|line| line.starts_with("steersman_informer_unpacks_total{"));
        let series = series.find(|line| line.contains("Deployment")).unwrap();
        series.rsplit(' ').next().unwrap().to_owned()
    };
    let before = unpacks();
    for generation in 1..4 {
        let status = json!({"status": {"observedGeneration": generation}});
        world
            .server
            .merge_patch("deployments.apps/status", "default", "web", &status)
            .unwrap();
        assert_eq!(runs.rest().await, ["web"]);
    }
    assert_eq!(unpacks(), before);
}
