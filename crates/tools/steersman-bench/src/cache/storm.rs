//! Driver: measures a controller that reconciles every object once after its start, of this
//! workspace and of kube-runtime.
//!
//! Both count their reconciles in the same way and do no other work; both have a subscriber of
//! spans and logs at level `info`, as text without colours, that discards its lines.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_runtime::controller::{Action as KubeAction, Config as KubeOptions};
use kube_runtime::{Controller as KubeController, watcher};
use serde::{Deserialize, Serialize};
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::running::Controlling;
use super::words::{MeasuredCache, SyncTask};
use crate::process::BenchResult;
use crate::wire::kube_client;

const WORKERS: u16 = 8;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StormFigures {
    /// From the start of the controller to its first reconcile.
    pub(crate) first_seconds: f64,
    /// From the first to the last reconcile.
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
}

/// Counts reconciles and records the start of the first and the last.
#[derive(Default)]
struct StormCount {
    objects: u64,
    begun: AtomicU64,
    first: OnceLock<Instant>,
    last: OnceLock<Instant>,
    done: Notify,
}

/// Measures a controller; that of this workspace has metrics.
pub(super) async fn measure(asked: &SyncTask) -> BenchResult<StormFigures> {
    listen();
    let began = Instant::now();
    let count = Arc::new(StormCount {
        objects: asked.objects,
        ..StormCount::default()
    });
    let controlling = start(asked, Arc::clone(&count)).await?;
    count.done.notified().await;
    controlling.stop().await?;
    count.stormed(began)
}

async fn start(asked: &SyncTask, count: Arc<StormCount>) -> BenchResult<Controlling> {
    if asked.by != MeasuredCache::KubeRuntime {
        let controller = Controller::builder::<ConfigMap>()
            .max_concurrent_reconciles(WORKERS.into())
            .build(count)?;
        return Controlling::steersman(controller, &asked.kubeconfig).await;
    }
    let all: Api<ConfigMap> = Api::all(kube_client(&asked.kubeconfig).await?);
    let reconciles = KubeController::new(all, watcher::Config::default().streaming_lists())
        .with_config(KubeOptions::default().concurrency(WORKERS))
        .run(
            |_, count: Arc<StormCount>| async move {
                count.one();
                Ok::<_, Infallible>(KubeAction::await_change())
            },
            |_, never, _| match *never {},
            count,
        );
    Ok(Controlling::kube_runtime(reconciles))
}

/// Sets up the log of an operator in a container, which has no colours, without its output.
fn listen() {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_ansi(false)
        .with_writer(std::io::sink)
        .init();
}

impl StormCount {
    fn one(&self) {
        let before = self.begun.fetch_add(1, Ordering::Relaxed);
        // The thread of the first reconcile may be suspended here.
        if before < u64::from(WORKERS) {
            self.first.get_or_init(Instant::now);
        }
        if before + 1 == self.objects {
            self.last.get_or_init(Instant::now);
            self.done.notify_one();
        }
    }

    fn stormed(&self, began: Instant) -> BenchResult<StormFigures> {
        let first = *self.first.get().ok_or("nothing was reconciled")?;
        let last = *self.last.get().ok_or("not everything was reconciled")?;
        let seconds = (last - first).as_secs_f64();
        Ok(StormFigures {
            first_seconds: (first - began).as_secs_f64(),
            seconds,
            per_second: self.objects as f64 / seconds,
        })
    }
}

impl Reconciler for StormCount {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        self.one();
        Ok(Action::done())
    }
}
