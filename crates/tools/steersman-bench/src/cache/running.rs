//! Driver: runs a controller beside its own cache, with metrics, as in a manager.

use std::path::Path;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use prometheus::Registry;
use serde::de::DeserializeOwned;
use steersman_api::ClientConfig;
use steersman_cache::{Cache, CacheMetrics, CacheOptions};
use steersman_client::Client;
use steersman_controller::{Controller, ControllerError, StartContext};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::words::{ClientRole, MeasuredCache};
use crate::process::{Actor, BenchResult};

/// Runs a client process for this workspace and then one for kube-runtime, and returns their reports.
pub(super) async fn beside_peer<T: DeserializeOwned>(
    role: impl Fn(MeasuredCache) -> ClientRole,
) -> BenchResult<[T; 2]> {
    let own = Actor::client(&role(MeasuredCache::Defaults))?;
    let own = own.report().await?;
    let peer = Actor::client(&role(MeasuredCache::KubeRuntime))?;
    Ok([own, peer.report().await?])
}

/// A running controller, in tasks of its own.
pub(super) enum Controlling {
    /// A controller of this workspace, and its cache.
    Steersman {
        cancel: CancellationToken,
        caching: JoinHandle<Result<(), steersman_cache::Error>>,
        controlling: JoinHandle<Result<(), ControllerError>>,
    },
    KubeRuntime(JoinHandle<()>),
}

impl Controlling {
    pub(super) async fn steersman(controller: Controller, kubeconfig: &Path) -> BenchResult<Self> {
        let client_config = ClientConfig::from_kubeconfig(kubeconfig).await?;
        let registry = Registry::new();
        let metrics = CacheMetrics::register(&registry)?;
        let cache = Cache::new(CacheOptions::new().metrics(metrics))?;
        let client = Client::new(cache.clone(), client_config.clone());
        controller.declare(&cache)?;
        let cancel = CancellationToken::new();
        let caching = tokio::spawn(cache.run(client_config, cancel.clone()));
        let start = StartContext::new(cache, client, cancel.clone(), Arc::new(Timestamp::now))
            .registry(registry);
        Ok(Self::Steersman {
            cancel,
            caching,
            controlling: tokio::spawn(controller.start(start)),
        })
    }

    /// Runs the reconciles of a controller of kube-runtime.
    pub(super) fn kube_runtime(reconciles: impl Stream + Send + 'static) -> Self {
        let all = reconciles.for_each(|_| std::future::ready(()));
        Self::KubeRuntime(tokio::spawn(all))
    }

    pub(super) async fn stop(self) -> BenchResult<()> {
        match self {
            Self::Steersman {
                cancel,
                caching,
                controlling,
            } => {
                cancel.cancel();
                controlling.await??;
                caching.await??;
            }
            Self::KubeRuntime(running) => running.abort(),
        }
        Ok(())
    }
}
