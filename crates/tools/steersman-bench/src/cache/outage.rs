//! Driver: measures when a deletion during an outage of the server is observed.
//!
//! The server is killed and restarted: first connections are refused, then it installs its paths, then it initializes
//! its storages, and no earlier resource version is known.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client as KubeClient};
use kube_runtime::WatchStreamExt as _;
use kube_runtime::watcher;
use steersman_api::ClientConfig;
use steersman_apiserver::History;
use steersman_apiserver::faults::Restart;
use steersman_cache::{Cache, CacheOptions};
use steersman_informer::{Delivery, Event};
use steersman_object::Kind;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::apart::ServerApart;
use super::running::beside_peer;
use super::words::{ClientRole, MeasuredCache};
use crate::process::{BenchResult, progress};
use crate::report::Figure;
use crate::wire::kube_client;

/// The duration of the outage in each run, in seconds, before paths are installed.
const AWAY: [u64; 3] = [8, 12, 16];
/// The duration of each of the two start phases.
const PHASE: Duration = Duration::from_secs(1);
const GONE: &str = "gone";
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) async fn measure_all(quick: bool) -> BenchResult<Vec<Figure>> {
    let away = if quick { &AWAY[..1] } else { &AWAY[..] };
    let mut runs: Vec<[f64; 2]> = Vec::new();
    for away in away.iter().copied() {
        progress(format!("an outage of {away} s, of each"));
        let role = |by| ClientRole::Outage { by, away };
        runs.push(beside_peer(role).await?);
    }
    let outages: Vec<String> = away.iter().map(u64::to_string).collect();
    let what = format!(
        "time from the return of the server until the client observes a deletion made during the outage, outages of {} s, over HTTPS",
        outages.join(", ")
    );
    Ok(vec![
        Figure::compared("cache/outage/seconds", what, "s", &runs, |one| *one).at_most(5.0),
    ])
}

/// Measures one outage, and returns the time of the client in seconds from the server's return.
pub(super) async fn measure(by: MeasuredCache, away: u64) -> BenchResult<f64> {
    let apart = ServerApart::serve(["stays", GONE].map(str::to_owned)).await?;
    let kubeconfig = apart.kubeconfig();
    let (sees, mut seen) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    let watching = match by {
        MeasuredCache::KubeRuntime => {
            tokio::spawn(kube_runtime(kube_client(kubeconfig).await?, sees))
        }
        _ => {
            let client_config = ClientConfig::from_kubeconfig(kubeconfig).await?;
            tokio::spawn(steersman(client_config, cancel.clone(), sees))
        }
    };
    // The first message means that all objects are known.
    seen.recv().await.ok_or("the watch has ended")?;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let away = Duration::from_secs(away);
    let restart = Restart::new(History::Lost)
        .away(away)
        .installing(PHASE)
        .initializing(PHASE);
    let back = Instant::now() + away + 2 * PHASE;
    apart.server.restart(restart);
    tokio::time::sleep(Duration::from_secs(1)).await;
    apart.server.delete("configmaps", "default", GONE)?;
    let gone = tokio::time::timeout(PATIENCE, seen.recv()).await?;
    gone.ok_or("the watch has ended")?;
    let seconds = back.elapsed().as_secs_f64();
    cancel.cancel();
    watching.abort();
    drop(apart);
    Ok(seconds)
}

/// Signals when all objects are known, and when the object is deleted.
async fn steersman(
    client_config: ClientConfig,
    cancel: CancellationToken,
    sees: UnboundedSender<()>,
) {
    // These options describe one informer.
    let Ok(cache) = Cache::new(CacheOptions::new()) else {
        return;
    };
    let Ok(informers) = cache.informers_of::<ConfigMap>(&Kind::of::<ConfigMap>()) else {
        return;
    };
    let caching = tokio::spawn(cache.run(client_config, cancel));
    for informer in informers {
        let mut subscription = informer.subscribe();
        while let Some(delivery) = subscription.next().await {
            if let Delivery::Synced | Delivery::Event(Event::Deleted { .. }) = delivery
                && sees.send(()).is_err()
            {
                return;
            }
        }
    }
    drop(caching);
}

/// Signals as [`steersman()`] does, with kube-runtime's watcher and its default backoff.
async fn kube_runtime(client: KubeClient, sees: UnboundedSender<()>) {
    let all: Api<ConfigMap> = Api::namespaced(client, "default");
    let events = watcher(all, watcher::Config::default().streaming_lists()).default_backoff();
    let mut events = std::pin::pin!(events);
    let (mut synced, mut found) = (false, false);
    while let Some(event) = events.next().await {
        let is_gone = |map: &ConfigMap| map.metadata.name.as_deref() == Some(GONE);
        let is_told = match event {
            Ok(watcher::Event::Init) => {
                found = false;
                false
            }
            Ok(watcher::Event::InitApply(map)) => {
                found |= is_gone(&map);
                false
            }
            Ok(watcher::Event::InitDone) => !std::mem::replace(&mut synced, true) || !found,
            Ok(watcher::Event::Delete(map)) => is_gone(&map),
            Ok(watcher::Event::Apply(_)) | Err(_) => false,
        };
        if is_told && sees.send(()).is_err() {
            return;
        }
    }
}
