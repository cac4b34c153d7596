//! Driver: measures replicas that share the work, as processes: the part of each, and how long a hand-over takes.

mod relay;

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use steersman_apiserver::ApiServer;
use tokio::time::{Instant, sleep};

use crate::cache::words::{ClientRole, ShardReport, ShardTask};
use crate::figures::Figures;
use crate::process::{Actor, BenchResult, progress};
use crate::report::{Figure, Spread};
use crate::samples::Sample;
use crate::shards::relay::Relay;

/// The numbers of replicas.
const REPLICAS: [usize; 3] = [1, 2, 4];

/// The group of all replicas.
const GROUP: &str = "bench-shards";

/// The pause between two looks at the replicas.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How long a replica may take to load its part.
const LONGEST: Duration = Duration::from_secs(120);

/// One replica: its process, and the relay that counts its bytes.
struct Replica {
    actor: Actor,
    relay: Relay,
}

/// The mean of what the replicas of a group took.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// In megabytes.
    resident: f64,
    /// In seconds.
    cpu: f64,
    /// In megabytes.
    received: f64,
}

/// Runs all measurements.
pub(crate) async fn measure(is_quick: bool) -> BenchResult<Vec<Figure>> {
    let (objects, namespaces, runs) = if is_quick {
        (400, 40, 1)
    } else {
        (40_000, 400, 3)
    };
    progress(format!(
        "a server with {objects} Pods in {namespaces} namespaces"
    ));
    let server = filled(objects, namespaces)?;
    let serving = server.serve("127.0.0.1:0").await?;
    let kubeconfig = serving.kubeconfig();
    let mut figures = Figures::shown();
    figures.add(bare(runs).await?);
    for (on_server, id, how) in [
        (false, "here", "the replicas filter"),
        (true, "server", "the server filters"),
    ] {
        let mut taken: Vec<Vec<Taken>> = vec![Vec::new(); REPLICAS.len()];
        for run in 1..=runs {
            for (of_count, count) in taken.iter_mut().zip(REPLICAS) {
                progress(format!("{count} replicas, {how}, run {run} of {runs}"));
                let group = start((&server, &kubeconfig), count, on_server, objects).await?;
                of_count.push(group.0);
                for replica in group.1 {
                    replica.actor.end().await?;
                }
            }
        }
        for (what, unit, most, of) in figures_of(on_server) {
            let name = what.split_whitespace().next().unwrap_or_default();
            let alone: Vec<f64> = taken[0].iter().map(of).collect();
            for (of_count, count) in taken.iter().zip(REPLICAS) {
                let id = format!("shards/{id}/{name}/{count}");
                let text = format!("{what} of each of {count} replicas, {how}");
                figures.add(Figure::new(&id, text, unit, Spread::over(of_count, of)));
            }
            let shares = taken[2]
                .iter()
                .zip(&alone)
                .map(|(one, alone)| of(one) / alone);
            let id = format!("shards/{id}/{name}/share");
            let text =
                format!("the same of one of four, divided by that of a single one: {what}, {how}");
            let mut share = Figure::new(&id, text, "", Spread::of(shares.collect()));
            if let Some(most) = most {
                share = share.at_most(most);
            }
            figures.add(share);
        }
    }
    for figure in handovers((&server, &kubeconfig), objects, runs).await? {
        figures.add(figure);
    }
    serving.stop().await;
    Ok(figures.all())
}

type OfTaken = fn(&Taken) -> f64;

/// Returns what is measured, with the largest share of a replica among four.
fn figures_of(on_server: bool) -> [(&'static str, &'static str, Option<f64>, OfTaken); 3] {
    let with_server = on_server.then_some(0.30);
    let memory = if on_server { 0.30 } else { 0.35 };
    [
        (
            "resident memory after the first sync",
            "MB",
            Some(memory),
            |one| one.resident,
        ),
        (
            "processor time of the first sync",
            "s",
            with_server,
            |one| one.cpu,
        ),
        (
            "bytes from the server during the first sync",
            "MB",
            with_server,
            |one| one.received,
        ),
    ]
}

/// Makes a server with Pods in many namespaces.
fn filled(objects: u64, namespaces: u64) -> BenchResult<ApiServer> {
    let server = ApiServer::new();
    let name_of = |number: u64| {
        // The names of users' namespaces differ at their beginning.
        let spread = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{:08x}-team", spread >> 32)
    };
    for number in 0..namespaces {
        server.create(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name_of(number)},
        }))?;
    }
    for number in 0..objects {
        let (object, status) = Sample::Pod.make(number, &name_of(number % namespaces));
        let mut object = server.create(object)?;
        if let Some(status) = status {
            object["status"] = status;
            server.update("pods/status", object)?;
        }
    }
    Ok(server)
}

/// Starts replicas of a new group at once, and waits until they hold all objects. Returns the mean of what each took.
async fn start(
    (server, kubeconfig): (&ApiServer, &str),
    count: usize,
    on_server: bool,
    objects: u64,
) -> BenchResult<(Taken, Vec<Replica>)> {
    // The first replica of a group that had others before gets all slots at once, and loses most of them to the next ones.
    let _ = server.delete("leases.coordination.k8s.io", "default", GROUP);
    let mut replicas = Vec::new();
    for number in 0..count {
        replicas.push(Replica::start(kubeconfig, number, on_server).await?);
    }
    let reports = all_hold(&mut replicas, objects).await?;
    let mean = |of: &dyn Fn(usize, &ShardReport) -> f64| {
        let sum: f64 = reports
            .iter()
            .enumerate()
            .map(|(at, one)| of(at, one))
            .sum();
        sum / count as f64
    };
    let taken = Taken {
        resident: mean(&|_, one| one.resident as f64 / 1e6),
        cpu: mean(&|_, one| one.cpu),
        received: mean(&|at, _| replicas[at].relay.received() as f64 / 1e6),
    };
    Ok((taken, replicas))
}

/// Waits until the replicas hold all objects, each at least half of its share.
async fn all_hold(replicas: &mut [Replica], objects: u64) -> BenchResult<Vec<ShardReport>> {
    let began = Instant::now();
    let least = objects / replicas.len() as u64 / 2;
    loop {
        let mut reports: Vec<ShardReport> = Vec::new();
        for replica in replicas.iter_mut() {
            reports.push(replica.actor.request(&()).await?);
        }
        let sum: u64 = reports.iter().map(|one| one.objects).sum();
        if sum == objects
            && reports
                .iter()
                .all(|one| one.objects >= least && one.is_settled)
        {
            return Ok(reports);
        }
        if began.elapsed() > LONGEST {
            return Err(format!("the replicas hold {sum} of {objects} objects").into());
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

impl Replica {
    async fn start(kubeconfig: &str, number: usize, on_server: bool) -> BenchResult<Self> {
        let relay = Relay::start(kubeconfig).await?;
        let task = ShardTask {
            kubeconfig: relay.kubeconfig().to_owned(),
            seed: number as u64,
            on_server,
        };
        let actor = Actor::client(&ClientRole::Shard(task))?;
        Ok(Self { actor, relay })
    }
}

/// Measures the memory of a replica without objects.
async fn bare(runs: u32) -> BenchResult<Figure> {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await?;
    let kubeconfig = serving.kubeconfig();
    let mut resident = Vec::new();
    for _ in 0..runs {
        let (taken, replicas) = start((&server, &kubeconfig), 1, false, 0).await?;
        resident.push(taken.resident);
        for replica in replicas {
            replica.actor.end().await?;
        }
    }
    serving.stop().await;
    let what = "for comparison: resident memory of a replica of a server without Pods";
    Ok(Figure::new("shards/bare", what, "MB", Spread::of(resident)))
}

/// Measures the time from the stop or the kill of one of two replicas until the other one holds all objects.
async fn handovers(place: (&ApiServer, &str), objects: u64, runs: u32) -> BenchResult<Vec<Figure>> {
    let (mut stops, mut kills) = (Vec::new(), Vec::new());
    for run in 1..=runs {
        for (times, is_kill) in [(&mut stops, false), (&mut kills, true)] {
            progress(format!("a hand-over, run {run} of {runs}"));
            let (_, mut replicas) = start(place, 2, false, objects).await?;
            let Some(replica) = replicas.pop() else {
                continue;
            };
            let began = Instant::now();
            match is_kill {
                true => drop(replica),
                false => replica.actor.end().await?,
            }
            all_hold(&mut replicas, objects).await?;
            times.push(began.elapsed().as_secs_f64());
            for replica in replicas {
                replica.actor.end().await?;
            }
        }
    }
    let figure = |id: &str, what: &str, times: Vec<f64>, most: f64| {
        Figure::new(id, what, "s", Spread::of(times)).at_most(most)
    };
    Ok(vec![
        figure(
            "shards/handover/stop",
            "from the request to stop one of two replicas until the other one holds all objects",
            stops,
            5.0,
        ),
        figure(
            "shards/handover/kill",
            "from the kill of one of two replicas until the other one holds all objects",
            kills,
            25.0,
        ),
    ])
}

/// Writes a kubeconfig with another server.
fn with_server(kubeconfig: &str, from: &str, to: &str, path: &Path) -> BenchResult<()> {
    Ok(std::fs::write(path, kubeconfig.replace(from, to))?)
}
