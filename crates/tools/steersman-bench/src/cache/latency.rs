//! Driver: measures the time from the server's commit of a change to its reconcile, without other load.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_runtime::controller::Action as KubeAction;
use kube_runtime::{Controller as KubeController, watcher};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_apiserver::status::Status;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{Instant, timeout};

use super::apart::ServerApart;
use super::running::Controlling;
use super::words::MeasuredCache;
use crate::process::BenchResult;
use crate::wire::kube_client;

/// The pause between two changes.
const QUIET: Duration = Duration::from_millis(5);

/// The number of objects besides the changed one.
const OTHERS: u64 = 100;

/// The times from changes to reconciles, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// The median and the 99th percentile from the call of the write, which includes the work of the server.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The median and the 99th percentile from the return of the write, after the commit.
    pub(crate) p50_after: f64,
    pub(crate) p99_after: f64,
}

/// Records when a reconcile starts.
#[derive(Clone)]
struct Entered(UnboundedSender<Instant>);

/// Changes one object `rounds` times.
pub(super) async fn measure(by: MeasuredCache, rounds: usize) -> BenchResult<Latency> {
    let names = (0..=OTHERS).map(|number| format!("settings-{number}"));
    let apart = ServerApart::serve(names).await?;
    let (entered, mut entries) = mpsc::unbounded_channel();
    let controlling = start(by, apart.kubeconfig(), Entered(entered)).await?;

    // Objects that exist at the start are reconciled first.
    while timeout(100 * QUIET, entries.recv()).await.is_ok() {}
    let (mut after, mut with) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        tokio::time::sleep(QUIET).await;
        let server = apart.server.clone();
        let write = apart.handle.spawn(async move {
            let called = Instant::now();
            let patch = json!({"data": {"number": number.to_string()}});
            server.merge_patch("configmaps", "default", "settings-0", &patch)?;
            Ok::<_, Status>((called, Instant::now()))
        });
        let entry = entries.recv().await.ok_or("the controller has ended")?;
        let (called, returned) = write.await??;
        after.push(entry.saturating_duration_since(returned));
        with.push(entry.saturating_duration_since(called));
    }
    controlling.stop().await?;
    drop(apart);
    Ok(Latency {
        p50: percentile(&mut with, 50),
        p99: percentile(&mut with, 99),
        p50_after: percentile(&mut after, 50),
        p99_after: percentile(&mut after, 99),
    })
}

async fn start(by: MeasuredCache, kubeconfig: &Path, entered: Entered) -> BenchResult<Controlling> {
    if by != MeasuredCache::KubeRuntime {
        let controller = Controller::builder::<ConfigMap>().build(entered)?;
        return Controlling::steersman(controller, kubeconfig).await;
    }
    let all: Api<ConfigMap> = Api::all(kube_client(kubeconfig).await?);
    let reconciles = KubeController::new(all, watcher::Config::default().streaming_lists());
    let reconciles = reconciles.run(
        |_, entered: Arc<Entered>| async move {
            entered.note();
            Ok::<_, Infallible>(KubeAction::await_change())
        },
        |_, never, _| match *never {},
        Arc::new(entered),
    );
    Ok(Controlling::kube_runtime(reconciles))
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times
        .get(at)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

impl Entered {
    fn note(&self) {
        // The receiver is dropped after the last round.
        let _ = self.0.send(Instant::now());
    }
}

impl Reconciler for Entered {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        self.note();
        Ok(Action::done())
    }
}
