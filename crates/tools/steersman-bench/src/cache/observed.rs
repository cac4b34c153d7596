//! Driver: the process of an operator that reconciles its objects again and again, while it is asked to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::ClientConfig;
use steersman_cli::{LogFormat, LogLevel};
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_manager::{Manager, MetricsServer, Shutdown};
use steersman_otlp::{OtlpOptions, Traces};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::words::{InsideReport, ObservedLog, ObservedOperator};
use crate::process::{BenchResult, cpu_time, memory, send};

/// Counts its reconciles, and waits while the operator is not asked to reconcile.
struct Counting {
    count: AtomicU64,
    may_work: watch::Sender<bool>,
}

/// Runs a manager until the standard input ends. Each line is a time for which it reconciles.
pub(crate) async fn play(observed: ObservedOperator) -> BenchResult<()> {
    let traces = traces(&observed)?;
    listen(observed.observation.log, traces.as_ref())?;
    let client_config = ClientConfig::from_kubeconfig(&observed.kubeconfig).await?;
    let mut manager = Manager::builder(client_config);
    let page = free_address().await?;
    if observed.observation.has_page {
        manager = manager.metrics(MetricsServer::new(page.as_str()).debug_page(true));
    }
    let manager = manager.build()?;
    let counting = Arc::new(Counting {
        count: AtomicU64::new(0),
        may_work: watch::Sender::new(true),
    });
    let controller = Controller::builder::<ConfigMap>()
        .name("observed")
        .max_concurrent_reconciles(8)
        .build(Arc::clone(&counting))?;
    manager.add_controller(controller)?;
    let cancel = CancellationToken::new();
    let stop = Shutdown::when(cancel.clone().cancelled_owned());
    let running = tokio::spawn(manager.start(stop));
    counting.count_to(observed.objects).await;
    counting.may_work.send_replace(false);
    send(&page)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let part: Duration = serde_json::from_str(&line)?;
        send(&counting.work_for(part).await?)?;
    }
    counting.may_work.send_replace(true);
    cancel.cancel();
    running.await??;
    if let Some(traces) = traces {
        traces.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

impl Counting {
    async fn count_to(&self, count: u64) {
        while self.count.load(Ordering::Relaxed) < count {
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn work_for(&self, part: Duration) -> BenchResult<InsideReport> {
        let (before, began) = (self.count.load(Ordering::Relaxed), Instant::now());
        let cpu = cpu_time();
        self.may_work.send_replace(true);
        sleep(part).await;
        let done = self.count.load(Ordering::Relaxed) - before;
        let per_second = done as f64 / began.elapsed().as_secs_f64();
        let cpu_ns = (cpu_time() - cpu).as_secs_f64() * 1e9 / done as f64;
        self.may_work.send_replace(false);
        let resident = memory()?.0 as f64;
        Ok(InsideReport {
            per_second,
            cpu_ns,
            resident,
        })
    }
}

impl Reconciler for Counting {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        if !*self.may_work.borrow() {
            let mut may_work = self.may_work.subscribe();
            // The sender is a part of this reconciler.
            let _ = may_work.wait_for(|may| *may).await;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(Action::requeue_after(Duration::ZERO))
    }
}

/// Starts the export of traces that the observation asks for.
fn traces(observed: &ObservedOperator) -> BenchResult<Option<Traces>> {
    let Some(ratio) = observed.observation.traces else {
        return Ok(None);
    };
    let options = OtlpOptions::new("observed").endpoint(&*observed.collector);
    Ok(options.sample_ratio(ratio).start()?)
}

/// Sets up the log as the flags of an operator do, and the export of traces. The standard error of this process is no
/// file.
fn listen(log: ObservedLog, traces: Option<&Traces>) -> BenchResult<()> {
    let format = match log {
        ObservedLog::None => return Ok(()),
        ObservedLog::Json => LogFormat::Json,
        ObservedLog::Human => LogFormat::Human,
    };
    let (_, log) = LogLevel::layer("info", format)?;
    match traces {
        None => tracing_subscriber::registry().with(log).try_init()?,
        Some(traces) => {
            let both = vec![traces.layer().boxed(), log.boxed()];
            tracing_subscriber::registry().with(both).try_init()?;
        }
    }
    Ok(())
}

async fn free_address() -> BenchResult<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(listener.local_addr()?.to_string())
}
