//! Reads of the objects that the object of a request controls.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use steersman_controller::{
    Action, Context, Controller, ControllerError, Error, Request, handler, reconcile,
};
use steersman_object::ObjectKey;

use crate::world::{World, record};

/// Creates a ConfigMap with an owner that has the name `web` and this uid.
fn child(world: &World, name: &str, uid: &Value, is_controller: bool) {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid,
        "controller": is_controller,
    });
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
    });
    world.server.create(child).unwrap();
}

fn names(objects: &[Arc<ConfigMap>]) -> String {
    let names = objects.iter().filter_map(|one| one.metadata.name.clone());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.join(" ")
}

// CTRL-31
#[tokio::test(start_paused = true)]
async fn only_what_the_object_itself_controls_is_its_own() {
    let mut world = World::new();
    let web = world.deploy("web");
    let uid = &web["metadata"]["uid"];
    child(&world, "one", uid, true);
    child(&world, "two", uid, true);
    child(&world, "not-controlled", uid, false);
    child(&world, "of-predecessor", &json!("another"), true);
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let note = note.clone();
        async move {
            note.note(&names(&ctx.owned::<ConfigMap>().await?));
            for name in ["two", "not-controlled", "of-predecessor", "absent"] {
                let found = ctx.owned_named::<ConfigMap>(name).await?;
                note.note(&format!("{name} {}", found.is_some()));
            }
            // The next read sees this write even if the cache has not received it.
            let web = ctx.client().get::<Deployment>(&request.key).await?;
            let three = ObjectKey::namespaced("default", "three");
            let empty = |_: &mut ConfigMap| {};
            ctx.client().ensure(three, empty).owned_by(&*web).await?;
            note.note(&names(&ctx.owned::<ConfigMap>().await?));
            Ok::<_, Error>(Action::done())
        }
    });
    let controller = Controller::builder::<Deployment>()
        .owns::<ConfigMap>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let expected = [
        "one two", "two true", "not-controlled false", "of-predecessor false", "absent false",
        "one three two",
    ];
    for expected in expected {
        assert_eq!(runs.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_owns_nothing() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        let note = note.clone();
        async move {
            note.note(&ctx.owned::<ConfigMap>().await?.len());
            let named = ctx.owned_named::<ConfigMap>("child").await?;
            note.note(&named.is_some());
            Ok::<_, Error>(Action::done())
        }
    });
    world.own("child", &["web"]);
    let controller = Controller::builder::<Deployment>()
        .owns::<ConfigMap>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["0", "false"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_declared_as_owned_is_refused() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let of_kind = note.clone();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        let note = of_kind.clone();
        async move {
            let refused = ctx.owned::<Secret>().await.map(drop).unwrap_err();
            let is_undeclared = matches!(
                refused.downcast_ref(),
                Some(ControllerError::NotOwned { .. })
            );
            note.note(&format!("{is_undeclared} {refused}"));
            Ok::<_, Error>(Action::done())
        }
    });
    let controller = Controller::builder::<Deployment>()
        .owns::<ConfigMap>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let expected = "true controller \"deployment\" does not own Secret.v1: declare it with `owns` on the builder, \
                    so that its events request their owner";
    assert_eq!(runs.next().await, expected);

    let reconciler = reconcile::from_fn(move |ctx: Context, _: String| {
        let note = note.clone();
        async move {
            let refused = ctx.owned::<ConfigMap>().await.map(drop).unwrap_err();
            let has_none = matches!(
                refused.downcast_ref(),
                Some(ControllerError::NoOwner { .. })
            );
            note.note(&has_none);
            Ok::<_, Error>(Action::done())
        }
    });
    let keyed = Controller::keyed::<String>("names")
        .watches::<Deployment>(handler::mapped(|_: &Deployment| vec!["all".to_owned()]))
        .build(reconciler)
        .unwrap();
    world.start(keyed);
    assert_eq!(runs.next().await, "true");
}

#[tokio::test(start_paused = true)]
async fn a_detached_context_reads_what_the_object_of_its_request_controls() {
    let mut world = World::new();
    let web = world.deploy("web");
    child(&world, "one", &web["metadata"]["uid"], true);
    // The first controller also starts the cache.
    let (note, _runs) = record();
    let controller = Controller::builder::<Deployment>().owns::<ConfigMap>();
    world.start(controller.build(note.reconciler()).unwrap());
    let clock: steersman_controller::Clock = Arc::new(|| k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let request = Request::new(ObjectKey::namespaced("default", "web"));
    let ctx = Context::detached("test", world.client.clone(), clock);
    ctx.owned::<ConfigMap>().await.unwrap_err();
    let ctx = ctx.for_request::<Deployment>(&request);
    assert_eq!(names(&ctx.owned::<ConfigMap>().await.unwrap()), "one");
}
