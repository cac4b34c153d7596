//! Driver: the process of one replica that shares the work.

use k8s_openapi::api::core::v1::Pod;
use steersman_api::ClientConfig;
use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};
use steersman_manager::{Manager, Shutdown};
use steersman_object::{Kind, ShardBy};
use steersman_shards::Shards;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;

use super::words::{ShardReport, ShardTask};
use crate::process::{BenchResult, cpu_time, memory, send};

/// Runs a manager until the standard input ends, and reports its state for each line.
pub(crate) async fn play(asked: ShardTask) -> BenchResult<()> {
    let client_config = ClientConfig::from_kubeconfig(&asked.kubeconfig).await?;
    let by = match asked.on_server {
        true => ShardBy::NamespaceOnServer,
        false => ShardBy::Namespace,
    };
    let shards = Shards::new("bench-shards", by).in_namespace("default");
    let manager = Manager::builder(client_config)
        .shards(shards.seed(asked.seed))
        .build()?;
    let reconciler = |_: Context, _: Request| std::future::ready(Ok::<_, Error>(Action::done()));
    let controller = Controller::builder::<Pod>().build(reconcile::from_fn(reconciler))?;
    let status = controller.status();
    manager.add_controller(controller)?;
    let mut informers = manager
        .cache()
        .informers_of::<Pod>(&Kind::of::<Pod>())?
        .into_iter();
    let informer = informers.next().ok_or("the cache has no informer")?;
    let cancel = CancellationToken::new();
    let stop = Shutdown::when(cancel.clone().cancelled_owned());
    let running = tokio::spawn(manager.start(stop));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        let work = status.work();
        send(&ShardReport {
            objects: informer.store().len() as u64,
            is_settled: work.is_some_and(|work| work.ready == 0 && work.running == 0),
            cpu: cpu_time().as_secs_f64(),
            resident: memory()?.0,
        })?;
    }
    cancel.cancel();
    Ok(running.await??)
}
