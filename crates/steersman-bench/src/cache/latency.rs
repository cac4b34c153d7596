//! Driver: how long a change takes from the server's commit into a reconcile, while nothing else happens.
//!
//! The server is in the same process, so that one clock tells both ends, but has a runtime of its own;
//! what connects the two is HTTPS over loopback, as with any other server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_api::Connection;
use steersman_apiserver::ApiServer;
use steersman_apiserver::status::Status;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::running::Running;
use crate::process::Outcome;

/// How long it is quiet between two changes.
const QUIET: Duration = Duration::from_millis(5);

/// How many objects there are besides the one that changes.
const OTHERS: u64 = 100;

/// How long changes took into a reconcile, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// From the return of the write, which is right behind the commit, in the middle and at the 99th of
    /// a hundred.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The same from the call of the write, all of the server's own work included.
    pub(crate) p50_of_call: f64,
    pub(crate) p99_of_call: f64,
}

/// Notes when a reconcile is entered.
struct Entered(mpsc::UnboundedSender<Instant>);

/// Changes one object so many times.
pub(super) async fn steersman(rounds: usize) -> Outcome<Latency> {
    let apart = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let server = ApiServer::new();
    for number in 0..=OTHERS {
        let name = format!("settings-{number}");
        let metadata = json!({"name": name, "namespace": "default"});
        server
            .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
            .map_err(refused)?;
    }
    let serving = {
        let server = server.clone();
        apart
            .spawn(async move { server.serve("127.0.0.1:0").await })
            .await??
    };
    let kubeconfig = tempfile::NamedTempFile::new()?;
    serving.write_kubeconfig(kubeconfig.path())?;
    let connection = Connection::from_kubeconfig(kubeconfig.path()).await?;

    let (entered, mut entries) = mpsc::unbounded_channel();
    let controller = Controller::builder::<ConfigMap>().build(Entered(entered))?;
    let running = Running::start(controller, connection)?;

    // What is there from the start is reconciled first.
    while tokio::time::timeout(100 * QUIET, entries.recv())
        .await
        .is_ok()
    {}
    let (mut after, mut with) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        tokio::time::sleep(QUIET).await;
        let server = server.clone();
        let write = apart.spawn(async move {
            let called = Instant::now();
            let patch = json!({"data": {"number": number.to_string()}});
            server
                .merge_patch("configmaps", "default", "settings-0", &patch)
                .map_err(refused)?;
            Ok::<_, String>((called, Instant::now()))
        });
        let entry = entries.recv().await.ok_or("the controller has ended")?;
        let (called, returned) = write.await??;
        after.push(entry.saturating_duration_since(returned));
        with.push(entry.saturating_duration_since(called));
    }
    running.stop().await?;
    drop(serving);
    apart.shutdown_background();
    Ok(Latency {
        p50: percentile(&mut after, 50),
        p99: percentile(&mut after, 99),
        p50_of_call: percentile(&mut with, 50),
        p99_of_call: percentile(&mut with, 99),
    })
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times
        .get(at)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

fn refused(refusal: Status) -> String {
    refusal.message
}

impl Reconciler for Entered {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        // Nobody listens any more once all rounds are over.
        let _ = self.0.send(Instant::now());
        Ok(Action::done())
    }
}
