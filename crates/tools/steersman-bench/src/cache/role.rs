//! Driver: the roles of processes in a measurement of the cache, and their reports.

use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube_client::core::object::{NotUsed, Object};
use kube_client::core::{DynamicObject, NamespaceResourceScope, PartialObjectMeta};
use serde::{Deserialize, Serialize};
use steersman_object::TypedObject;

use super::words::{ClientRole, MeasuredCache, SyncTask, Synced};
use super::{
    admission, children, explored, latency, load, observed, outage, peers, port, queue, replica,
    steady, storm, unseen,
};
use crate::process::{BenchResult, send};
use crate::samples::document::Document;
use crate::samples::{Sample, Widget};

pub(crate) fn play(role: &str) -> BenchResult<()> {
    let role: ClientRole = serde_json::from_str(role)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        match role {
            ClientRole::Unseen { objects } => {
                // The fixture has a runtime of its own.
                let measured = tokio::task::spawn_blocking(move || unseen::measure(objects));
                send(&measured.await??)
            }
            ClientRole::Sync(asked) => send(&sync(&asked).await?),
            ClientRole::Queue { keys } => send(&queue::work_off(keys).await?),
            ClientRole::Storm(asked) => send(&Box::pin(storm::measure(&asked)).await?),
            ClientRole::Latency { by, rounds } => {
                send(&Box::pin(latency::measure(by, rounds)).await?)
            }
            ClientRole::Children { by, owners } => {
                send(&Box::pin(children::measure(by, owners)).await?)
            }
            ClientRole::Admission { writes } => send(&Box::pin(admission::measure(writes)).await?),
            ClientRole::Port {
                kubeconfig,
                documents,
                is_peer,
            } => Box::pin(port::play(&kubeconfig, documents, is_peer)).await,
            ClientRole::Outage { by, away } => send(&Box::pin(outage::measure(by, away)).await?),
            ClientRole::Load(asked) => Box::pin(load::play(asked)).await,
            ClientRole::Explored => Box::pin(explored::play()).await,
            ClientRole::Shard(asked) => Box::pin(replica::play(asked)).await,
            ClientRole::Inside(asked) => Box::pin(observed::play(asked)).await,
            ClientRole::Steady(asked) => Box::pin(steady::play(asked)).await,
        }
    })
}

/// A type of a reader that needs one field.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Small {
    node_name: Option<String>,
}

async fn sync(asked: &SyncTask) -> BenchResult<Synced> {
    match asked.of {
        Sample::Pod => sync_of::<Pod>(asked).await,
        Sample::ConfigMap => sync_of::<ConfigMap>(asked).await,
        Sample::Secret => sync_of::<Secret>(asked).await,
        Sample::Event => sync_of::<Event>(asked).await,
        Sample::Widget => sync_of::<Widget>(asked).await,
        Sample::Document => sync_of::<Document>(asked).await,
    }
}

async fn sync_of<K>(asked: &SyncTask) -> BenchResult<Synced>
where
    K: TypedObject<Scope = NamespaceResourceScope>,
{
    match asked.by {
        MeasuredCache::Metadata => {
            Box::pin(peers::steersman::<K, PartialObjectMeta<K>>(asked)).await
        }
        MeasuredCache::Small => {
            Box::pin(peers::steersman::<K, Object<Small, NotUsed>>(asked)).await
        }
        MeasuredCache::Tree => Box::pin(peers::steersman::<K, DynamicObject>(asked)).await,
        MeasuredCache::KubeRuntime | MeasuredCache::KubeRuntimeBare => {
            Box::pin(peers::kube_runtime::<K>(asked)).await
        }
        _ => Box::pin(peers::steersman::<K, K>(asked)).await,
    }
}
