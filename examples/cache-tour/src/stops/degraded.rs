//! Driver: the stop about a kind that is not served at first.

use k8s_openapi::api::core::v1::Pod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman::informer::InformerState;
use steersman::kube_core::CustomResourceExt as _;
use steersman::{CacheOptions, CustomResource, ListOptions};
use tokio::time::Instant;

use crate::BoxError;
use crate::cluster::Cluster;
use crate::page::{Page, Table};

/// A kind with a definition that is installed late.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "tour.example.com", version = "v1", kind = "Voyage")]
#[kube(namespaced)]
pub(crate) struct VoyageSpec {
    /// The destination.
    pub(crate) to: String,
}

/// Reads a kind that the server does not serve, then installs its definition.
pub(crate) async fn visit(cluster: &Cluster) -> Result<Page, BoxError> {
    let opened = cluster.open(CacheOptions::new(), |cache| {
        cache.informer::<Pod>()?;
        cache.informer::<Voyage>().map(drop)
    });
    let opened = opened.await?;
    let cache = &opened.cache;
    let everything = ListOptions::new();
    let state = || -> Result<String, BoxError> {
        Ok(match cache.informer::<Voyage>()?.state() {
            InformerState::Degraded { reason, .. } => format!("degraded: {reason}"),
            InformerState::Synced => "synced".to_owned(),
            other => format!("{other:?}"),
        })
    };
    let began = Instant::now();
    let refused = cache.list::<Voyage>(&everything).await;
    let refused = refused.err().map(|error| error.to_string());
    let waited = began.elapsed();
    let before = state()?;
    let pods = cache.list::<Pod>(&everything).await?.len();

    let installed = Instant::now();
    let definition = serde_json::to_value(Voyage::crd())?;
    cluster.server().install_crd(definition)?;
    cluster.server().create(json!({
        "apiVersion": "tour.example.com/v1", "kind": "Voyage",
        "metadata": {"namespace": "shop", "name": "first"}, "spec": {"to": "Ithaca"},
    }))?;
    cache.wait_for_sync().await?;
    let healed = installed.elapsed();
    let voyages = cache.list::<Voyage>(&everything).await?;
    let to: Vec<&str> = voyages
        .iter()
        .map(|voyage| voyage.spec.to.as_str())
        .collect();

    let page = Page::new("6. A kind that cannot be had")
        .say("The definition of Voyages is not installed. A read of them returns that error at once:")
        .quote(refused.unwrap_or_default())
        .table(
            &Table::new(["state of voyages", "read answered after", "pods meanwhile"]).row([
                &before,
                &format!("{} s", waited.as_secs()),
                &format!("{pods} readable"),
            ]),
        )
        .say("Then it is installed, and the cache recovers without a restart:")
        .table(
            &Table::new(["state of voyages", "healed within", "read"]).row([
                &state()?,
                &format!("{:.1} s", healed.as_secs_f64()),
                &format!("a voyage to {}", to.join(", ")),
            ]),
        )
        .table(&opened.asked());
    drop(voyages);
    opened.close().await?;
    Ok(page)
}
