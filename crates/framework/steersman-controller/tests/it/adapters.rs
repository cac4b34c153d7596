//! Reconcilers that get the object, and reconcilers inside layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_controller::reconcile::{KubeActions as _, ReconcileCall};
use steersman_controller::{Action, Context, Controller, Error, Request, handler, reconcile};
use steersman_object::ObjectKey;
use tower::BoxError;
use tower::ServiceExt as _;
use tower::layer::layer_fn;

use crate::world::{Record, World, record};

const LABELS: &str = r#"controller="deployment""#;

#[tokio::test(start_paused = true)]
async fn a_function_of_an_object_runs_for_what_exists() {
    let mut world = World::new();
    world.deploy("front");
    let (note, mut runs) = record();
    let reconciler = reconcile::of_object(move |deployment: Arc<Deployment>, ctx: Context| {
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        note.note(&format!("{} {name}", ctx.controller()));
        std::future::ready(Ok(Action::done()))
    });
    // Each ConfigMap also asks for a Deployment that does not exist.
    let absent = handler::mapped(|_: &ConfigMap| {
        vec![Request::new(ObjectKey::namespaced("default", "absent"))]
    });
    let controller = Controller::builder::<Deployment>()
        .watches::<ConfigMap>(absent)
        .build(reconciler)
        .unwrap();
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
    });
    world.server.create(config).unwrap();
    let running = world.start(controller);
    assert_eq!(runs.rest().await, ["deployment front"]);
    let success = format!("{LABELS},result=\"success\"");
    assert_eq!(world.metric("reconcile_total", &success), "2");
    world.cancel.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_of_layers_are_retried_and_terminal_errors_stay_terminal() {
    let mut world = World::new();
    for name in ["front", "refused"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
        note.note(&request.key.name());
        let ended = match request.key.name() {
            "refused" => Err(Error::msg("it can never work").terminal()),
            _ => Ok(Action::done()),
        };
        std::future::ready(ended)
    });
    // The layer refuses its first three calls for `front`.
    let left = Arc::new(AtomicU32::new(3));
    let layer = layer_fn(move |inner: reconcile::ReconcileService<_>| {
        let left = Arc::clone(&left);
        tower::service_fn(move |call: ReconcileCall| {
            let (inner, left) = (inner.clone(), Arc::clone(&left));
            async move {
                let is_front = call.request.key.name() == "front";
                if is_front
                    && left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                        .is_ok()
                {
                    return Err(BoxError::from("not yet"));
                }
                inner.oneshot(call).await
            }
        })
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconcile::layered(layer, reconciler))
        .unwrap();
    let running = world.start(controller);
    let mut seen = [runs.next().await, runs.next().await];
    seen.sort();
    assert_eq!(seen, ["front", "refused"]);
    assert!(runs.is_quiet().await);
    assert_eq!(world.metric("reconcile_errors_total", LABELS), "4");
    assert_eq!(world.metric("terminal_reconcile_errors_total", LABELS), "1");
    world.cancel.cancel();
    running.await.unwrap().unwrap();
}

/// The error of a layer that wraps another error.
#[derive(Debug, thiserror::Error)]
#[error("the layer passes an error on")]
struct Wrapped(#[source] BoxError);

#[tokio::test(start_paused = true)]
async fn a_terminal_error_that_a_layer_wraps_stays_terminal() {
    let mut world = World::new();
    world.deploy("refused");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
        note.note(&request);
        let refused = Error::msg("it can never work").terminal();
        std::future::ready(Err::<Action, _>(refused))
    });
    let layer = layer_fn(|inner: reconcile::ReconcileService<_>| {
        inner.map_err(|error: BoxError| Wrapped(error))
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconcile::layered(layer, reconciler))
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.next().await, "refused");
    assert!(runs.is_quiet().await);
    assert_eq!(world.metric("reconcile_errors_total", LABELS), "1");
    assert_eq!(world.metric("terminal_reconcile_errors_total", LABELS), "1");
    world.cancel.cancel();
    running.await.unwrap().unwrap();
}

/// Notes its name before each call.
fn noting<S>(
    note: Record,
    name: &'static str,
    inner: S,
) -> impl Clone + Fn(ReconcileCall) -> S::Future
where
    S: tower::Service<ReconcileCall> + Clone,
{
    move |call| {
        note.note(&name);
        inner.clone().call(call)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_layer_of_a_builder_is_the_outermost() {
    let mut world = World::new();
    world.deploy("front");
    let (note, mut runs) = record();
    let (outer, inner) = (note.clone(), note.clone());
    let controller = Controller::builder::<Deployment>()
        .layer(layer_fn(move |service| {
            tower::service_fn(noting(outer.clone(), "outer", service))
        }))
        .layer(layer_fn(move |service| {
            tower::service_fn(noting(inner.clone(), "inner", service))
        }))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    assert_eq!(runs.rest().await, ["outer", "inner", "front"]);
}

/// The context of an operator for kube-runtime.
struct Settings {
    note: Record,
}

#[derive(Debug, thiserror::Error)]
enum SiteError {
    #[error("the server is busy")]
    Busy,
    #[error("the name is refused")]
    Refused,
}

async fn visit(deployment: Arc<Deployment>, ctx: Arc<Settings>) -> Result<Action, SiteError> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    ctx.note.note(&name);
    match name {
        "busy" => Err(SiteError::Busy),
        "refused" => Err(SiteError::Refused),
        _ => Ok(Action::await_change()),
    }
}

fn error_policy(_: Arc<Deployment>, error: &SiteError, _: Arc<Settings>) -> Action {
    match error {
        SiteError::Busy => Action::requeue(Duration::from_secs(600)),
        SiteError::Refused => Action::await_change(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_policy_of_kube_runtime_decides_what_follows_an_error() {
    let mut world = World::new();
    for name in ["busy", "gone", "quiet", "refused"] {
        world.deploy(name);
    }
    let (note, mut runs) = record();
    let settings = Arc::new(Settings { note });
    let controller = Controller::builder::<Deployment>()
        .build(reconcile::from_kube(visit, error_policy, settings))
        .unwrap();
    world.start(controller);
    let mut first = Vec::new();
    for _ in 0..4 {
        first.push(runs.next_at().await);
    }
    first.sort();
    let (names, times): (Vec<_>, Vec<_>) = first.into_iter().unzip();
    assert_eq!(names, ["busy", "gone", "quiet", "refused"]);
    // The reconciler is not called for a deleted object.
    world
        .server
        .delete("deployments.apps", "default", "gone")
        .unwrap();
    for round in 1..=3 {
        let (name, at) = runs.next_at().await;
        assert_eq!((&*name, at - times[0]), ("busy", round * 600_000));
    }
    assert_eq!(world.metric("terminal_reconcile_errors_total", LABELS), "1");
}
