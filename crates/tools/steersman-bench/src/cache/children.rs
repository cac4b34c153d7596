//! Driver: measures a controller with many owners that have one child each, of this workspace and of kube-runtime: the
//! creation of the children, and one change of each owner that changes no child.
//!
//! Both apply the same document in each reconcile, and reconcile an owner again when its child has changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Resource};
use kube_runtime::controller::{Action as KubeAction, Config as KubeOptions};
use kube_runtime::{Controller as KubeController, watcher};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_client::owner;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_object::ObjectKey;
use tokio::time::Instant;

use super::apart::ServerApart;
use super::reconcile_count::ReconcileCount;
use super::running::{Controlling, beside_peer};
use super::words::{ClientRole, MeasuredCache};
use crate::process::{BenchResult, repeat};
use crate::report::Figure;
use crate::wire::kube_client;

const WORKERS: u16 = 8;

const NAMESPACE: &str = "default";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChildrenFigures {
    created: Settled,
    /// After a change of each owner that changes no child.
    unchanged: Settled,
}

/// The way to a state in which no reconcile runs or waits.
#[derive(Debug, Serialize, Deserialize)]
struct Settled {
    /// The time until the end of the last reconcile.
    seconds: f64,
    requests: u64,
    reconciles: u64,
}

struct ChildReconciler(Arc<ReconcileCount>);

pub(crate) async fn measure_all(owners: u64, runs: u32) -> BenchResult<Vec<Figure>> {
    let role = |by| ClientRole::Children { by, owners };
    let what = format!("{owners} owned children");
    let measured = repeat(runs, what, async || beside_peer(&role).await).await?;
    let figure = |id: &str, what: String, unit, of: fn(&ChildrenFigures) -> f64| {
        let id = format!("controller/children/{id}");
        let what = format!("{what}, {owners} owners with an owned Secret each, 8 workers");
        Figure::compared(&id, what, unit, &measured, of)
    };
    let created =
        "from the start of the controller until all children are created and no reconcile follows";
    let unchanged =
        "after a change of each owner that changes no child, until no reconcile follows";
    let [time, later] = [created, unchanged].map(|until| format!("time {until}"));
    let [requests, later_requests] =
        [created, unchanged].map(|until| format!("number of requests {until}"));
    Ok(vec![
        figure("seconds", time, "s", |one| one.created.seconds),
        figure("requests", requests, "", |one| one.created.requests as f64),
        figure("unchanged/seconds", later, "s", |one| one.unchanged.seconds),
        figure("unchanged/requests", later_requests, "", |one| {
            one.unchanged.requests as f64
        })
        .at_most(0.0)
        .guarded(),
    ])
}

pub(super) async fn measure(by: MeasuredCache, owners: u64) -> BenchResult<ChildrenFigures> {
    let names = (0..owners).map(owner_name);
    let apart = ServerApart::serve(names).await?;
    let count = Arc::new(ReconcileCount::new());
    let began = Instant::now();
    let controlling = start(by, apart.kubeconfig(), Arc::clone(&count)).await?;
    let created = settled(&apart, &count, began, (0, 0), owners).await?;
    let children = apart.server.list("secrets", NAMESPACE).len() as u64;
    if children != owners {
        return Err(format!("{children} of {owners} children were created").into());
    }
    let before = (created.requests, created.reconciles);
    let began = Instant::now();
    let server = apart.server.clone();
    let touching = apart.handle.spawn_blocking(move || {
        (0..owners).try_for_each(|number| {
            let patch = json!({"data": {"number": "1"}});
            let name = owner_name(number);
            let patched = server.merge_patch("configmaps", NAMESPACE, &name, &patch);
            patched.map(drop)
        })
    });
    touching.await??;
    let unchanged = settled(&apart, &count, began, before, owners).await?;
    controlling.stop().await?;
    drop(apart);
    Ok(ChildrenFigures { created, unchanged })
}

/// Waits until each owner has been reconciled, and no reconcile runs or follows. `before` has the requests and the
/// reconciles that do not count.
async fn settled(
    apart: &ServerApart,
    count: &ReconcileCount,
    began: Instant,
    before: (u64, u64),
    owners: u64,
) -> BenchResult<Settled> {
    let last = count.settled(before.1 + owners).await;
    let reconciles = count.ended();
    let requests = apart.server.requests().count(|_| true) as u64;
    Ok(Settled {
        seconds: last.saturating_duration_since(began).as_secs_f64(),
        requests: requests - before.0,
        reconciles: reconciles - before.1,
    })
}

async fn start(
    by: MeasuredCache,
    kubeconfig: &Path,
    count: Arc<ReconcileCount>,
) -> BenchResult<Controlling> {
    if by != MeasuredCache::KubeRuntime {
        let controller = Controller::builder::<ConfigMap>()
            .owns::<Secret>()
            .max_concurrent_reconciles(WORKERS.into())
            .build(ChildReconciler(count))?;
        return Controlling::steersman(controller, kubeconfig).await;
    }
    let client = kube_client(kubeconfig).await?;
    let watched = watcher::Config::default().streaming_lists();
    let children: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let reconciles = KubeController::new(Api::<ConfigMap>::all(client.clone()), watched.clone())
        .owns(Api::<Secret>::all(client), watched)
        .with_config(KubeOptions::default().concurrency(WORKERS))
        .run(
            move |owner: Arc<ConfigMap>, count: Arc<ReconcileCount>| {
                let children = children.clone();
                async move {
                    let _ended = count.begin();
                    let mut child = child(owner.metadata.name.as_deref().unwrap_or_default());
                    child.metadata.owner_references =
                        owner.controller_owner_ref(&()).map(|owner| vec![owner]);
                    let name = child.metadata.name.clone().unwrap_or_default();
                    let params = PatchParams::apply("children").force();
                    children
                        .patch(&name, &params, &Patch::Apply(&child))
                        .await?;
                    Ok::<_, kube_client::Error>(KubeAction::await_change())
                }
            },
            |_, _: &kube_client::Error, _| KubeAction::requeue(Duration::from_secs(1)),
            count,
        );
    Ok(Controlling::kube_runtime(reconciles))
}

fn owner_name(number: u64) -> String {
    format!("settings-{number}")
}

fn child(name: &str) -> Secret {
    let text = format!("postgres://{name}.default.svc:5432/app");
    let url = ("url".to_owned(), ByteString(text.into_bytes()));
    Secret {
        metadata: ObjectKey::namespaced(NAMESPACE, name).to_meta(),
        data: Some(BTreeMap::from([url])),
        ..Secret::default()
    }
}

impl Reconciler for ChildReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let _ended = self.0.begin();
        let Some(settings) = ctx.client().get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let mut child = child(request.key.name());
        owner::set_controller_reference(&*settings, &mut child)?;
        ctx.client().apply(&child).if_changed().await?;
        Ok(Action::done())
    }
}
