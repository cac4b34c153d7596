//! The context tells why a reconcile runs.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_controller::{
    Action, Context, Controller, Error, ObjectChange, Priority, Reconciler, Request, Watch,
    handler, reconcile,
};
use steersman_object::ObjectKey;
use tokio::sync::Semaphore;

use crate::world::{Record, World, record};

/// Records the reason of each run.
fn reasons(
    note: Record,
    ends: impl Fn(&Context) -> Result<Action, Error> + Send + Sync + 'static,
) -> impl Reconciler {
    reconcile::from_fn(move |ctx: Context, request: Request| {
        note.note(&format!("{}: {}", request.key.name(), ctx.reason()));
        std::future::ready(ends(&ctx))
    })
}

// CTRL-20
#[tokio::test(start_paused = true)]
async fn each_run_names_what_requested_it() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let (send, stream) = mpsc::unbounded();
    let reconciler = reasons(note, |ctx| {
        match (ctx.reason().is_requested(), ctx.attempt()) {
            (true, 0) => Err(Error::msg("once")),
            (true, _) | (_, 1) => Ok(Action::requeue_after(Duration::from_secs(60))),
            _ => Ok(Action::done()),
        }
    });
    let controller = Controller::builder::<Deployment>()
        .owns::<ConfigMap>()
        .watch(Watch::requests(stream))
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "web: the initial list");
    world.deploy("new");
    assert_eq!(
        runs.next().await,
        "new: Deployment.v1.apps default/new was created"
    );
    world.own("child", &["web"]);
    assert_eq!(
        runs.next().await,
        "web: ConfigMap.v1 default/child was created"
    );
    world.scale("web", 2);
    assert_eq!(
        runs.next().await,
        "web: Deployment.v1.apps default/web was updated"
    );
    world
        .server
        .delete("configmaps", "default", "child")
        .unwrap();
    assert_eq!(
        runs.next().await,
        "web: ConfigMap.v1 default/child was deleted"
    );
    let web = Request::new(ObjectKey::namespaced("default", "web"));
    send.unbounded_send(web).unwrap();
    assert_eq!(runs.next().await, "web: a stream of requests");
    assert_eq!(runs.next().await, "web: retry 1");
    assert_eq!(runs.next().await, "web: a timer");
    assert!(runs.rest().await.is_empty());
}

// CTRL-20: the changes that become one run are listed once each, the first few of them by name.
#[tokio::test(start_paused = true)]
async fn changes_that_become_one_run_are_one_reason() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let gate = Arc::new(Semaphore::new(0));
    let reconciler = {
        let gate = Arc::clone(&gate);
        reconcile::from_fn(move |ctx: Context, _: Request| {
            let (gate, note) = (Arc::clone(&gate), note.clone());
            async move {
                let reason = ctx.reason();
                let first = reason.changes().next();
                let is_create = first.map(|first| first.change == ObjectChange::Created);
                let count = (reason.changes().len(), reason.more_changes());
                note.note(&format!("{is_create:?} {count:?} {}", reason.is_event()));
                gate.acquire().await?.forget();
                Ok::<_, Error>(Action::done())
            }
        })
    };
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(handler::mapped(|_: &ConfigMap| {
            [ObjectKey::namespaced("default", "web")]
        }))
        .build(reconciler)
        .unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "None (0, 0) false");
    for number in 0..7 {
        world.own(&format!("map-{number}"), &[]);
    }
    world.annotate("configmaps", "map-0", "again");
    assert!(runs.rest().await.is_empty());
    gate.add_permits(10);
    assert_eq!(runs.rest().await, ["Some(false) (4, 3) true"]);
    // The next run does not repeat the changes.
    world.scale("web", 2);
    assert_eq!(runs.rest().await, ["Some(false) (1, 0) true"]);
}

#[tokio::test(start_paused = true)]
async fn a_priority_in_an_action_is_that_of_the_next_run() {
    let mut world = World::new();
    world.deploy("a-first");
    for name in ["b", "c", "d"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let name = request.key.name().to_owned();
        note.note(&name);
        std::future::ready(Ok::<_, Error>(match (&*name, ctx.reason().is_timer()) {
            (_, true) => Action::done(),
            ("b", _) => Action::requeue_after(Duration::from_secs(9)),
            ("c", _) => Action::requeue_after(Duration::from_secs(9)).priority(Priority::HIGH),
            _ => Action::requeue_after(Duration::from_secs(9)).priority(Priority::NORMAL),
        }))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let mut first = Vec::new();
    for _ in 0..4 {
        first.push(runs.next().await);
    }
    assert_eq!(first, ["a-first", "b", "c", "d"]);
    // All keys become ready at once.
    assert_eq!(runs.rest().await, ["c", "a-first", "d", "b"]);
}

/// The reason of a run in a context that no controller made.
#[tokio::test(start_paused = true)]
async fn a_detached_context_has_an_empty_reason() {
    let world = World::new();
    let clock = Arc::new(|| k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    let ctx = Context::detached("tests", world.client, clock);
    assert_eq!(ctx.reason().to_string(), "a request");
    assert!(!ctx.is_last_attempt() && ctx.reason().retry().is_none());
    assert_eq!(ctx.reason().more_changes(), 0);
}
