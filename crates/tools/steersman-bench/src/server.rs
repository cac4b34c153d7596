//! Driver: the benchmarks of the embedded API server, each with processes of its own.

pub(crate) mod fill;
mod environment;
mod simulator;
mod program;
mod durability;
mod definitions;
pub(crate) mod serve;
pub(crate) mod role;

use std::path::Path;
use std::time::Duration;

use crate::figures::Figures;
use crate::process::{Actor, BenchResult, progress, repeat};
use crate::report::{Figure, Spread};
use crate::samples::Sample;
use crate::server::role::{InProcess, Played, ServerRole, Started};
use crate::server::serve::Order;
use crate::server::simulator::SimulatorTask;
use crate::wire::ServerAddress;

#[derive(Debug, Clone, Copy)]
struct ServerSize {
    objects: u64,
    runs: u32,
    watchers: u32,
    seconds: u64,
    pods: u64,
    servers: u32,
    deployments: u64,
    definitions: u32,
}

const FULL: ServerSize = ServerSize {
    objects: 10_000,
    runs: 5,
    watchers: 1000,
    seconds: 10,
    pods: 100_000,
    servers: 200,
    deployments: 1000,
    definitions: 400,
};

const QUICK: ServerSize = ServerSize {
    objects: 500,
    runs: 2,
    watchers: 50,
    seconds: 1,
    pods: 1000,
    servers: 10,
    deployments: 100,
    definitions: 20,
};

/// Writes per second to the watched object.
const WRITES: u32 = 100;

/// Runs all measurements; without the path of the program `steersman-apiserver` all others.
pub(crate) async fn measure(quick: bool, program: Option<&Path>) -> BenchResult<Vec<Figure>> {
    let size = if quick { QUICK } else { FULL };
    let mut figures = Figures::shown();
    figures.measure(start(size)).await?;
    if let Some(program) = program {
        progress("starts of the program");
        let runs = size.runs.max(5);
        figures.measure(program::start(program, runs)).await?;
        figures.measure(environment::start(program, runs)).await?;
        progress(format!("{} programs at once", size.servers));
        figures
            .measure(program::many(program, size.servers))
            .await?;
        figures
            .measure(definitions::many(program, size.definitions, size.runs))
            .await?;
        let span = Duration::from_secs(size.seconds.min(3));
        figures
            .measure(durability::writes(program, size.runs.min(3), span))
            .await?;
    }
    progress(format!("{} Pods in process", size.objects));
    figures.measure(in_process(size)).await?;
    progress("the same over HTTPS");
    figures.measure(over_https(size)).await?;
    for bytes in [1_000, 12_000] {
        figures.add(fan_out(size, bytes).await?);
    }
    for (deployments, tracked) in [(1, true), (1000, true), (1000, false)] {
        figures.add(played(size, deployments, tracked).await?);
    }
    figures.add(ready(size).await?);
    Ok(figures.all())
}

/// Measures the time from the start of a process to the first response.
async fn start(size: ServerSize) -> BenchResult<Vec<Figure>> {
    let starts: Vec<Started> = repeat(size.runs.max(5), "a start of a server", async || {
        Actor::start(&ServerRole::Start)?.report().await
    })
    .await?;
    let inside = Spread::over(&starts, |started| started.in_process_ms);
    let outside = Spread::over(&starts, |started| started.https_ms);
    let what = "time from the start of the process to the first response";
    let within = format!("{what}, in process");
    let over = format!("{what}, over HTTPS, including the creation of the certificates");
    Ok(vec![
        Figure::new("server/start/in-process", within, "ms", inside).at_most(50.0),
        Figure::new("server/start/https", over, "ms", outside).at_most(50.0),
    ])
}

/// Measures lists and watches without sockets.
async fn in_process(size: ServerSize) -> BenchResult<Vec<Figure>> {
    let ServerSize { objects, runs, .. } = size;
    let role = ServerRole::InProcess { objects, runs };
    let answer: InProcess = Actor::start(&role)?.report().await?;
    let each = answer.bytes as f64 / 1e3 / size.objects as f64;
    let resident = answer.resident as f64 / 1e3 / size.objects as f64;
    let rate = |id: &str, what: &str, rates: Vec<f64>| {
        let what = format!("{what}, {objects} Pods of {each:.1} kB, in process");
        Figure::new(id, what, "MB/s", Spread::of(rates))
            .more_is_better()
            .at_least(500.0)
    };
    let writes = format!(
        "rate of creating {objects} Pods and writing their status, {} writes, in process",
        2 * size.objects
    );
    let memory = format!("resident memory of the server per Pod, {objects} Pods");
    let per_second = Spread::one(answer.writes_per_second);
    let pages = "throughput of a list in pages of 500";
    let watch_list = "throughput of a WatchList";
    Ok(vec![
        rate("server/list/in-process", pages, answer.pages),
        rate("server/watch/in-process", watch_list, answer.watch_list),
        Figure::new("server/writes", writes, "writes/s", per_second).more_is_better(),
        Figure::new("server/resident", memory, "kB", Spread::one(resident)),
    ])
}

/// Measures lists and watches over sockets, from another process.
async fn over_https(size: ServerSize) -> BenchResult<Vec<Figure>> {
    let ServerSize { objects, runs, .. } = size;
    let (server, place) = serving(objects).await?;
    let client = Actor::start(&ServerRole::Fetch { place, runs })?;
    let (lists, watches): (Vec<f64>, Vec<f64>) = client.report().await?;
    server.end().await?;
    let rate = |id: &str, what: &str, rates: Vec<f64>| {
        let what = format!("{what}, {objects} Pods, over HTTPS to another process");
        Figure::new(id, what, "MB/s", Spread::of(rates)).more_is_better()
    };
    let list = "throughput of a list in one page";
    Ok(vec![
        rate("server/list/https", list, lists),
        rate("server/watch/https", "throughput of a WatchList", watches),
    ])
}

async fn serving(objects: u64) -> BenchResult<(Actor, ServerAddress)> {
    let of = Sample::Pod;
    let mut server = Actor::start(&ServerRole::Serve { objects, of })?;
    let (place, _kubeconfig): (_, String) = server.receive().await?;
    Ok((server, place))
}

/// Measures many watchers of one kind under a constant rate of writes; several times, because the
/// figure depends strongly on other load of the machine.
async fn fan_out(size: ServerSize, bytes: usize) -> BenchResult<Figure> {
    let kilobytes = bytes / 1000;
    let what = format!("watchers of objects of {kilobytes} kB");
    let runs = repeat(size.runs, what, async || fanned(size, bytes).await).await?;
    let cores = Spread::over(&runs, |(used, _)| *used);
    let rates = Spread::over(&runs, |(_, rate)| *rate);
    let what = format!(
        "processor cores used by the server, {} watchers of one kind over HTTPS, {WRITES} writes/s of {kilobytes} kB each ({:.0} deliveries/s)",
        size.watchers, rates.median
    );
    let id = format!("server/watchers/{bytes}");
    let figure = Figure::new(&id, what, "cores", cores);
    // Small objects may use one core; figures of large ones have no target.
    Ok(if bytes < 5000 {
        figure.at_most(1.0)
    } else {
        figure
    })
}

/// Returns the number of cores that the server used, and the deliveries per second.
async fn fanned(size: ServerSize, bytes: usize) -> BenchResult<(f64, f64)> {
    let (mut server, place) = serving(0).await?;
    let watchers = size.watchers;
    let mut client = Actor::start(&ServerRole::Watch { place, watchers })?;
    let open: u32 = client.receive().await?;
    let before: f64 = server.request(&Order::Cpu).await?;
    let writes = u64::from(WRITES) * size.seconds;
    let order = Order::Write {
        writes,
        per_second: WRITES,
        bytes,
    };
    let took: f64 = server.request(&order).await?;
    let wanted = u64::from(open) * writes;
    let events: u64 = client.request(&wanted).await?;
    let after: f64 = server.request(&Order::Cpu).await?;
    client.end().await?;
    server.end().await?;
    if events < wanted {
        return Err(format!("{events} of {wanted} events arrived").into());
    }
    let seconds = took.max(Duration::from_secs(1).as_secs_f64());
    Ok(((after - before) / seconds, wanted as f64 / took))
}

/// Measures the simulator, from Deployments to ready Pods.
async fn played(size: ServerSize, deployments: u64, tracked: bool) -> BenchResult<Figure> {
    let pods = size.pods;
    let task = SimulatorTask {
        pods,
        deployments,
        tracked,
        brisk: false,
    };
    let runs = simulated(size.runs, task).await?;
    let resident = runs.last().map_or(0, |last| last.resident);
    let (noted, plain) = if tracked {
        ("", "")
    } else {
        (", without managed fields", "/plain")
    };
    let plural = if deployments == 1 { "" } else { "s" };
    let what = format!(
        "rate of Pods that the simulator creates, binds and makes ready, {pods} Pods of {deployments} Deployment{plural}{noted} ({:.1} kB of resident memory per Pod)",
        resident as f64 / 1e3 / size.pods as f64
    );
    let id = format!("server/simulator/{deployments}{plain}");
    let rate = Spread::over(&runs, |one| one.pods_per_second);
    Ok(Figure::new(&id, what, "Pods/s", rate)
        .more_is_better()
        .at_least(5000.0))
}

async fn simulated(runs: u32, task: SimulatorTask) -> BenchResult<Vec<Played>> {
    let what = format!("the simulator with {} Deployments", task.deployments);
    let role = ServerRole::Simulator(task);
    repeat(runs, what, async || Actor::start(&role)?.report().await).await
}

/// Measures the time in which the simulator makes Deployments ready at the speed of `--play workloads`.
async fn ready(size: ServerSize) -> BenchResult<Figure> {
    let count = size.deployments;
    let task = SimulatorTask {
        pods: count,
        deployments: count,
        tracked: true,
        brisk: true,
    };
    let runs = simulated(size.runs, task).await?;
    let seconds = Spread::over(&runs, |one| count as f64 / one.pods_per_second);
    let what = format!(
        "time from the first of {count} Deployments with a Pod each until all are ready, with the simulator of `--play workloads`, which needs 0.11 s for a Pod"
    );
    let figure = Figure::new("server/simulator/ready", what, "s", seconds);
    Ok(figure.at_most(1.0))
}
