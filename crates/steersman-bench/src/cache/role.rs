//! Driver: what a process of a measurement of the cache does, and what it reports.

use std::path::PathBuf;

use clap::Subcommand;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;

use super::words::Peer;
use super::{latency, peers, queue, storm};
use crate::process::Outcome;

/// One side of a measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Caches all Pods of a server, and reads them.
    Sync {
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        peer: Peer,
        #[arg(long)]
        objects: u64,
    },
    /// Works keys off a queue.
    Queue {
        #[arg(long)]
        keys: u64,
    },
    /// Reconciles all Pods of a server once.
    Storm {
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        peer: Peer,
        #[arg(long)]
        objects: u64,
    },
    /// Waits for changes in a reconcile.
    Latency {
        #[arg(long)]
        rounds: usize,
    },
}

impl Role {
    /// Plays it to its end.
    pub(crate) fn play(self) -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            match self {
                Self::Sync {
                    kubeconfig,
                    peer,
                    objects,
                } => say(&match peer {
                    Peer::Steersman => peers::steersman(&kubeconfig, objects).await?,
                    Peer::KubeRuntime => peers::kube_runtime(&kubeconfig, objects, false).await?,
                    Peer::KubeRuntimeBare => {
                        peers::kube_runtime(&kubeconfig, objects, true).await?
                    }
                }),
                Self::Storm {
                    kubeconfig,
                    peer,
                    objects,
                } => say(&match peer {
                    Peer::Steersman => storm::steersman::<Pod>(&kubeconfig, objects).await?,
                    _ => storm::kube_runtime::<Pod>(&kubeconfig, objects).await?,
                }),
                Self::Latency { rounds } => say(&latency::steersman(rounds).await?),
                Self::Queue { keys } => say(&queue::work_off(keys).await?),
            }
        })
    }
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
fn say(answer: &impl Serialize) -> Outcome<()> {
    println!("{}", serde_json::to_string(answer)?);
    Ok(())
}
