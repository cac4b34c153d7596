//! Driver: measures an operator before and after its port from kube-runtime: requests, time and memory.
//!
//! The operator publishes each Document as a ConfigMap that the Document owns, writes its status, records an Event when
//! it is hidden, and has a finalizer. Both forms of it do what the documentation of their library advises.

mod before;
mod after;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steersman_api::ClientConfig;
use steersman_manager::Shutdown;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reconcile_count::ReconcileCount;
use super::words::ClientRole;
use crate::process::{Actor, BenchResult, memory, progress, send};
use crate::report::{Figure, KUBE_RUNTIME, Spread};
use crate::samples::Sample;
use crate::server::serve::{Order, ServedRequests};
use crate::wire::kube_client;
use crate::world::{World, Worlds};

/// The time after which an unchanged document is reconciled again.
const INTERVAL: Duration = Duration::from_secs(300);

const WORKERS: u16 = 8;

/// One run of an operator until it has nothing to do.
#[derive(Debug, Serialize, Deserialize)]
struct SettledRun {
    /// The time until the end of the last reconcile.
    seconds: f64,
    /// The resident memory, in bytes.
    resident: u64,
}

struct PortFigures {
    /// The first run, which publishes each document.
    published: PortPhase,
    /// After each document was hidden.
    hidden: PortPhase,
    /// After a restart, with nothing to do.
    restarted: PortPhase,
    watches: u64,
}

struct PortPhase {
    run: SettledRun,
    requests: u64,
}

pub(crate) async fn measure(quick: bool) -> BenchResult<Vec<Figure>> {
    let (documents, runs) = if quick { (50, 1) } else { (3_000, 3) };
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for run in 1..=runs {
        for (is_peer, figures) in [(false, &mut own), (true, &mut peer)] {
            progress(format!(
                "an operator of {documents} documents, run {run} of {runs}"
            ));
            figures.push(one(documents, is_peer).await?);
        }
    }
    let on = format!("{documents} Documents, 8 workers");
    let figure = |id: &str, what: &str, unit, of: fn(&PortFigures) -> f64| {
        let (id, what) = (format!("port/{id}"), format!("{what}, {on}"));
        Figure::new(&id, what, unit, Spread::over(&own, of))
            .beside(KUBE_RUNTIME, Spread::over(&peer, of))
    };
    let before = Spread::one(lines(include_str!("port/before.rs")));
    let after = Spread::one(lines(include_str!("port/after.rs")));
    let published = "number of requests until each document is published";
    let published_time = "time until each document is published";
    let hidden = "number of requests after each document was hidden";
    let restarted = "number of requests after a restart with nothing to do";
    let restarted_time = "time from a restart to the last reconcile, with nothing to do";
    let resident = "resident memory of the process after a restart";
    let counted = "lines of the operator, without comments and empty lines";
    Ok(vec![
        Figure::new("port/lines", counted, "", after).beside(KUBE_RUNTIME, before),
        figure("watches", "number of watches", "", |one| one.watches as f64),
        figure("published/requests", published, "", |one| {
            one.published.requests as f64
        }),
        figure("published/seconds", published_time, "s", |one| {
            one.published.run.seconds
        }),
        figure("hidden/requests", hidden, "", |one| {
            one.hidden.requests as f64
        }),
        figure("restarted/requests", restarted, "", |one| {
            one.restarted.requests as f64
        }),
        figure("restarted/seconds", restarted_time, "s", |one| {
            one.restarted.run.seconds
        }),
        figure("restarted/resident", resident, "MB", |one| {
            one.restarted.run.resident as f64 / 1e6
        }),
    ])
}

/// Measures one operator on a server of its own.
async fn one(documents: u64, is_peer: bool) -> BenchResult<PortFigures> {
    let mut world = Worlds::Own.start(Sample::Document, documents).await?;
    let role = ClientRole::Port {
        kubeconfig: world.kubeconfig.clone(),
        documents,
        is_peer,
    };

    let mut before: ServedRequests = world.order(Order::Requests).await?;
    let mut operator = Actor::client(&role)?;
    let run = operator.receive().await?;
    let mut phase = async |world: &mut World, run| -> BenchResult<PortPhase> {
        let now: ServedRequests = world.order(Order::Requests).await?;
        let requests = now.requests - before.requests;
        before = now;
        Ok(PortPhase { run, requests })
    };
    let published = phase(&mut world, run).await?;
    let ServedRequests { watches, .. } = world.order(Order::Requests).await?;
    let _hidden: u64 = world.order(Order::Hide).await?;
    let run = operator.request(&"hidden").await?;
    let hidden = phase(&mut world, run).await?;
    operator.end().await?;

    let mut operator = Actor::client(&role)?;
    let run = operator.receive().await?;
    let restarted = phase(&mut world, run).await?;
    operator.end().await?;
    world.end().await?;
    Ok(PortFigures {
        published,
        hidden,
        restarted,
        watches,
    })
}

/// Runs one operator, and reports each time that it has settled: at first, and after each line of the standard input.
pub(super) async fn play(kubeconfig: &Path, documents: u64, is_peer: bool) -> BenchResult<()> {
    let count = Arc::new(ReconcileCount::new());
    let stop = CancellationToken::new();
    let began = Instant::now();
    let running = if is_peer {
        let client = kube_client(kubeconfig).await?;
        let operator = before::run(client, Arc::clone(&count));
        let stop = stop.clone();
        tokio::spawn(async move {
            stop.run_until_cancelled_owned(operator).await;
            Ok(())
        })
    } else {
        let client_config = ClientConfig::from_kubeconfig(kubeconfig).await?;
        let manager = after::operator(client_config, Arc::clone(&count))?;
        tokio::spawn(manager.start(Shutdown::when(stop.clone().cancelled_owned())))
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let (mut began, mut reconciles) = (began, 0);
    loop {
        let last = count.settled(reconciles + documents).await;
        send(&SettledRun {
            seconds: last.saturating_duration_since(began).as_secs_f64(),
            resident: memory()?.0,
        })?;
        reconciles = count.ended();
        if lines.next_line().await?.is_none() {
            break;
        }
        began = Instant::now();
    }
    stop.cancel();
    Ok(running.await??)
}

/// Counts the lines of a source text without comments and empty lines.
fn lines(source: &str) -> f64 {
    let lines = source.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.count() as f64
}
