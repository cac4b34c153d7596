//! Driver: the roles of processes in a measurement of the cache, and their reports.

use std::path::PathBuf;

use clap::Subcommand;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube_client::core::object::{NotUsed, Object};
use kube_client::core::{DynamicObject, NamespaceResourceScope, PartialObjectMeta};
use serde::{Deserialize, Serialize};
use steersman_object::TypedObject;

use super::storm::StormFigures;
use super::words::{MeasuredCache, SyncTask, Synced};
use super::{
    admission, children, latency, load, outage, peers, port, queue, steady, storm, unseen,
};
use crate::process::{BenchResult, send};
use crate::samples::document::Document;
use crate::samples::{Sample, Widget};

/// The role of a process in a measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientRole {
    /// Caches all objects of a kind, and reads them.
    Sync {
        /// The task, as JSON.
        asked: String,
    },
    /// Processes keys of a queue.
    Queue {
        #[arg(long)]
        keys: u64,
    },
    /// Reconciles all objects of a server once.
    Storm {
        /// The task, as JSON.
        asked: String,
    },
    /// Measures the time from changes to reconciles.
    Latency {
        #[arg(long)]
        rounds: usize,
        /// Uses kube-runtime's controller.
        #[arg(long)]
        peer: bool,
    },
    /// Creates an owned child for each object.
    Children {
        #[arg(long)]
        owners: u64,
        /// Uses kube-runtime's controller.
        #[arg(long)]
        peer: bool,
    },
    /// Writes without and with a webhook.
    Admission {
        #[arg(long)]
        writes: u32,
    },
    /// Runs the ported operator, or the one before the port.
    Port {
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        documents: u64,
        /// Runs the operator before the port.
        #[arg(long)]
        peer: bool,
    },
    /// Waits for a deletion during an outage of the server.
    Outage {
        /// The duration of the outage, in seconds.
        #[arg(long)]
        away: u64,
        /// Uses kube-runtime's watcher.
        #[arg(long)]
        peer: bool,
    },
    /// Reads with unseen writes of other keys.
    Unseen {
        #[arg(long)]
        objects: u64,
    },
    /// Counts the requests of a manager, or of kube-runtime.
    Load {
        /// The task, as JSON.
        asked: String,
    },
    /// Runs an operator with constantly changing objects.
    Steady {
        /// The task, as JSON.
        asked: String,
    },
}

impl ClientRole {
    /// Runs the role to its end.
    pub(crate) fn play(self) -> BenchResult<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self {
                Self::Unseen { objects } => {
                    // The fixture has a runtime of its own.
                    let measured = tokio::task::spawn_blocking(move || unseen::measure(objects));
                    send(&measured.await??)
                }
                Self::Sync { asked } => send(&sync(&serde_json::from_str(&asked)?).await?),
                Self::Queue { keys } => send(&queue::work_off(keys).await?),
                Self::Storm { asked } => send(&storm(&serde_json::from_str(&asked)?).await?),
                Self::Latency { rounds, peer } => {
                    send(&Box::pin(latency::measure(by(peer), rounds)).await?)
                }
                Self::Children { owners, peer } => {
                    send(&Box::pin(children::measure(by(peer), owners)).await?)
                }
                Self::Admission { writes } => send(&Box::pin(admission::measure(writes)).await?),
                Self::Port {
                    kubeconfig,
                    documents,
                    peer,
                } => Box::pin(port::play(&kubeconfig, documents, peer)).await,
                Self::Outage { away, peer } => {
                    send(&Box::pin(outage::measure(by(peer), away)).await?)
                }
                Self::Load { asked } => Box::pin(load::play(&asked)).await,
                Self::Steady { asked } => Box::pin(steady::play(&asked)).await,
            }
        })
    }
}

fn by(peer: bool) -> MeasuredCache {
    match peer {
        true => MeasuredCache::KubeRuntime,
        false => MeasuredCache::Defaults,
    }
}

/// A type of a reader that needs one field.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Small {
    node_name: Option<String>,
}

async fn storm(asked: &SyncTask) -> BenchResult<StormFigures> {
    let (kubeconfig, objects) = (&asked.kubeconfig, asked.objects);
    match asked.by {
        MeasuredCache::KubeRuntime => {
            Box::pin(storm::kube_runtime::<ConfigMap>(kubeconfig, objects)).await
        }
        _ => Box::pin(storm::steersman::<ConfigMap>(kubeconfig, objects)).await,
    }
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
        MeasuredCache::Defaults
        | MeasuredCache::Http1
        | MeasuredCache::Json
        | MeasuredCache::Packed
        | MeasuredCache::Little
        | MeasuredCache::Much
        | MeasuredCache::Decoded
        | MeasuredCache::Whole
        | MeasuredCache::Selected => Box::pin(peers::steersman::<K, K>(asked)).await,
        MeasuredCache::KubeRuntime | MeasuredCache::KubeRuntimeBare => {
            Box::pin(peers::kube_runtime::<K>(asked)).await
        }
    }
}
