//! Driver: measures what it costs that an answered write survives the end of the program, or a power cut.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use steersman_api::ClientConfig;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::program::ProgramServer;
use crate::process::{BenchResult, repeat};
use crate::report::{Figure, Spread};

/// The size of the value of each ConfigMap, in bytes.
const BYTES: usize = 2000;

/// Measures writes per second over HTTPS. Each client patches an object of its own, one write after the other.
pub(super) async fn writes(program: &Path, runs: u32, span: Duration) -> BenchResult<Vec<Figure>> {
    let mut figures = Vec::new();
    for durability in ["none", "kernel", "fsync"] {
        for clients in [1, 8, 64] {
            let what = format!(
                "writes of {BYTES} bytes with --durability={durability}, clients at a time: {clients}"
            );
            let measure = async || rate(program, durability, clients, span).await;
            let rates = repeat(runs, &what, measure).await?;
            let id = format!("server/durability/{durability}/{clients}");
            figures.push(Figure::new(&id, what, "/s", Spread::of(rates)).more_is_better());
        }
    }
    Ok(figures)
}

/// Returns the answered writes per second of one server.
async fn rate(program: &Path, durability: &str, clients: u32, span: Duration) -> BenchResult<f64> {
    let server = ProgramServer::start_with(program, |folder| {
        let mut data = OsString::from("--data-dir=");
        data.push(folder.join("data"));
        vec![data, format!("--durability={durability}").into()]
    });
    let server = server.await?;
    let client_config = ClientConfig::from_kubeconfig(server.kubeconfig()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client_config.client()?, "default");
    for client in 0..clients {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name(client));
        maps.create(&PostParams::default(), &map).await?;
    }
    let began = Instant::now();
    let mut writing = JoinSet::new();
    for client in 0..clients {
        writing.spawn(write(maps.clone(), name(client), began + span));
    }
    let mut writes = 0;
    while let Some(written) = writing.join_next().await {
        writes += written??;
    }
    Ok(f64::from(writes) / began.elapsed().as_secs_f64())
}

/// Writes until a time, and returns the number of writes.
async fn write(
    maps: Api<ConfigMap>,
    name: String,
    end: Instant,
) -> Result<u32, kube_client::Error> {
    let mut writes = 0;
    while Instant::now() < end {
        let value = format!("{writes:0>BYTES$}");
        let patch = Patch::Merge(json!({"data": {"value": value}}));
        maps.patch(&name, &PatchParams::default(), &patch).await?;
        writes += 1;
    }
    Ok(writes)
}

fn name(client: u32) -> String {
    format!("client-{client}")
}
