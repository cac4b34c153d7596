//! Namespaces that are added to the cache of a running controller and removed from it (CTRL-42).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_cache::CacheOptions;
use steersman_controller::{Action, Context, Controller, Error, Watch, handler, reconcile, source};
use steersman_object::{Object as _, ObjectKey};

use crate::sources::optional::{Monitor, install};
use crate::world::{HOUR, World, deployment, record};

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "spec": {"path": "/"},
        "metadata": {"name": name, "namespace": namespace},
    })
}

fn config(namespace: &str, name: &str) -> Value {
    let mut config = object("v1", "ConfigMap", namespace, name);
    config.as_object_mut().unwrap().remove("spec");
    config
}

/// Creates a world with the namespaces `a`, `b` and `c`, and a cache of the first.
fn world() -> World {
    let world = World::with_cache(CacheOptions::new().default_namespaces(["a"]));
    for namespace in ["a", "b", "c"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.server.create(namespace).unwrap();
    }
    world
}

fn monitor(namespace: &str, name: &str) -> Value {
    object("metrics.example.com/v1", "Monitor", namespace, name)
}

/// Creates a world with the kind `Monitor`, and a Monitor and a Deployment in the namespaces `a` and `b`.
fn world_with_monitors() -> World {
    let world = world();
    install(&world);
    for namespace in ["a", "b"] {
        world.server.create(monitor(namespace, "m")).unwrap();
        let web = in_namespace(deployment("web"), namespace);
        world.server.create(web).unwrap();
    }
    world
}

fn distinct(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

// CTRL-42
#[tokio::test(start_paused = true)]
async fn a_controller_follows_the_namespaces_of_its_cache() {
    let mut world = world();
    for namespace in ["a", "b", "c"] {
        world
            .server
            .create(in_namespace(deployment("web"), namespace))
            .unwrap();
        world.server.create(config(namespace, "pages")).unwrap();
    }
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::itself())
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(runs.rest().await), ["a/pages", "a/web"]);
    world.cache.add_namespace("b").unwrap();
    assert_eq!(sorted(runs.rest().await), ["b/pages", "b/web"]);
    world.cache.add_namespace("c").unwrap();
    world.cache.remove_namespace("b").unwrap();
    assert_eq!(
        sorted(runs.rest().await),
        ["c/pages", "c/web"],
        "and no deletes of b"
    );
    for namespace in ["a", "b", "c"] {
        world.server.create(config(namespace, "more")).unwrap();
    }
    assert_eq!(sorted(runs.rest().await), ["a/more", "c/more"]);
    // The namespace is removed and added within one turn.
    world.cache.remove_namespace("c").unwrap();
    world.cache.add_namespace("c").unwrap();
    assert_eq!(sorted(runs.rest().await), ["c/more", "c/pages", "c/web"]);
    world.server.create(config("c", "last")).unwrap();
    assert_eq!(runs.rest().await, ["c/last"]);
    assert!(!running.is_finished());
    // The end of an informer is an error if its namespace stays in the cache, as in a cache of all namespaces.
    world.cache.remove::<ConfigMap>();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(
        error.kind().map(|kind| kind.gvk().kind()),
        Some("ConfigMap")
    );
}

/// CTRL-1: the workers wait for the namespaces that the cache has at the start.
#[tokio::test(start_paused = true)]
async fn the_workers_wait_for_every_namespace_of_the_start() {
    let mut world = world();
    world.cache.add_namespace("b").unwrap();
    world
        .server
        .create(in_namespace(deployment("web"), "a"))
        .unwrap();
    let slow = Duration::from_secs(20);
    let delay = world.server.faults().delay(None, "deployments.apps", slow);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (_, at) = runs.next_at().await;
    assert!(at >= slow.as_millis(), "{at}");
    drop(delay);
}

// CTRL-42: optional watches and polls.
#[tokio::test(start_paused = true)]
async fn optional_watches_and_polls_follow_the_namespaces_of_the_cache() {
    let mut world = world_with_monitors();
    let (note, mut runs) = record();
    let (called, mut calls) = record();
    let every = Duration::from_secs(24 * 3600);
    let poll = source::poll(every, move |object: Arc<Deployment>| {
        called.note(&object.key());
        std::future::ready(Ok::<_, Error>(1))
    });
    let results = poll.results();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::of::<Monitor>(handler::itself()).optional())
        .watch(Watch::poll(poll))
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    assert_eq!(distinct(runs.rest().await), ["a/m", "a/web"]);
    assert_eq!(calls.rest().await, ["a/web"]);
    world.cache.add_namespace("b").unwrap();
    assert_eq!(distinct(runs.rest().await), ["b/m", "b/web"]);
    assert_eq!(
        calls.rest().await,
        ["b/web"],
        "the others are not called again"
    );
    world.server.create(monitor("a", "more")).unwrap();
    assert_eq!(runs.rest().await, ["a/more"]);
    world.cache.remove_namespace("b").unwrap();
    for namespace in ["a", "b"] {
        world.server.create(monitor(namespace, "last")).unwrap();
    }
    assert_eq!(runs.rest().await, ["a/last"]);
    assert_eq!(results.get(&ObjectKey::namespaced("b", "web")), None);
    assert!(results.get(&ObjectKey::namespaced("a", "web")).is_some());
    assert!(!running.is_finished());
}

// CTRL-42: the tasks of the informers end after the server has sent the events, in a random order.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_created_after_the_removal_of_its_namespace_causes_no_run() {
    let mut world = world();
    install(&world);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::itself())
        .watch(Watch::of::<Monitor>(handler::itself()).optional())
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    for _ in 0..16 {
        world.cache.add_namespace("b").unwrap();
        assert!(runs.rest().await.is_empty());
        world.cache.remove_namespace("b").unwrap();
        let late = [
            ("configmaps", config("b", "late")),
            ("deployments.apps", in_namespace(deployment("late"), "b")),
            (
                "monitors.metrics.example.com",
                object("metrics.example.com/v1", "Monitor", "b", "late"),
            ),
        ];
        for (_, object) in &late {
            world.server.create(object.clone()).unwrap();
        }
        assert!(runs.rest().await.is_empty());
        for (resource, _) in late {
            world.server.delete(resource, "b", "late").unwrap();
        }
    }
}

// CTRL-42: the event that a handler works on at the removal still causes its run, and one that waits does not.
#[tokio::test(start_paused = true)]
async fn an_event_that_waits_for_its_handler_at_the_removal_of_its_namespace_is_dropped() {
    let mut world = world();
    world.cache.add_namespace("b").unwrap();
    for name in ["first", "second"] {
        world.server.create(config("b", name)).unwrap();
    }
    let (called, mut calls) = record();
    let (note, mut runs) = record();
    let slow = handler::mapped_async(move |_, config: Arc<ConfigMap>| {
        called.note(&config.key());
        async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok([config.key()])
        }
    });
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(slow)
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(calls.next().await, "b/first");
    world.cache.remove_namespace("b").unwrap();
    assert_eq!(runs.rest().await, ["b/first"]);
    assert!(calls.seen_nothing_more());
}

// CTRL-42: a call of a poll sends several requests, and waits for the answer to the first one at the removal.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_poll_goes_no_further_after_the_removal_of_its_namespace() {
    let mut world = world();
    world.cache.add_namespace("b").unwrap();
    for namespace in ["a", "b"] {
        let web = in_namespace(deployment("web"), namespace);
        world.server.create(web).unwrap();
    }
    let (called, mut calls) = record();
    let (answered, mut answers) = record();
    let every = Duration::from_secs(24 * 3600);
    let poll = source::poll(every, move |object: Arc<Deployment>| {
        let (called, answered) = (called.clone(), answered.clone());
        async move {
            called.note(&object.key());
            tokio::time::sleep(Duration::from_secs(20)).await;
            answered.note(&object.key());
            Ok::<_, Error>(1)
        }
    });
    let results = poll.results();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::poll(poll))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let both = [calls.next().await, calls.next().await];
    assert_eq!(distinct(both.to_vec()), ["a/web", "b/web"]);
    world.cache.remove_namespace("b").unwrap();
    assert_eq!(answers.rest().await, ["a/web"]);
    assert_eq!(results.len(), 1);
    assert_eq!(distinct(runs.rest().await), ["a/web", "b/web"]);
    // The end of the call makes room for the calls of a namespace that returns.
    world.cache.add_namespace("b").unwrap();
    assert_eq!(answers.rest().await, ["b/web"]);
}

// CTRL-42: all former namespaces are removed in one turn.
#[tokio::test(start_paused = true)]
async fn watches_and_polls_move_to_another_namespace_at_once() {
    let mut world = world_with_monitors();
    let (note, mut runs) = record();
    let poll = source::poll(Duration::from_secs(24 * 3600), |_: Arc<Deployment>| {
        std::future::ready(Ok::<_, Error>(1))
    });
    let results = poll.results();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::of::<Monitor>(handler::itself()).optional())
        .watch(Watch::poll(poll))
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    assert_eq!(distinct(runs.rest().await), ["a/m", "a/web"]);
    for (from, to) in [("a", "b"), ("b", "a")].repeat(16) {
        world.cache.add_namespace(to).unwrap();
        world.cache.remove_namespace(from).unwrap();
        let expected = [format!("{to}/m"), format!("{to}/web")];
        assert_eq!(distinct(runs.rest().await), expected);
        assert_eq!(results.len(), 1);
        assert!(results.get(&ObjectKey::namespaced(to, "web")).is_some());
        assert!(!running.is_finished());
    }
}

// CTRL-42: a request that waits when its namespace is removed.
#[tokio::test(start_paused = true)]
async fn a_request_for_an_object_outside_the_scope_ends_without_a_run_or_an_error() {
    let mut world = world();
    world.cache.add_namespace("b").unwrap();
    let web = in_namespace(deployment("web"), "b");
    world.server.create(web).unwrap();
    let (note, mut runs) = record();
    let reconciler = reconcile::of_object(move |site: Arc<Deployment>, _: Context| {
        note.note(&site.key());
        std::future::ready(Ok(Action::requeue_after(HOUR / 2)))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "b/web");
    world.cache.remove_namespace("b").unwrap();
    assert!(runs.is_quiet().await);
    let labels = r#"controller="deployment""#;
    assert_eq!(world.metric("reconcile_errors_total", labels), "0");
}
