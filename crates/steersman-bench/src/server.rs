//! Driver: the benchmarks of the embedded API server, each with processes of its own.

mod fill;
mod player;
pub(crate) mod role;

use std::time::Duration;

use crate::process::{Actor, Outcome};
use crate::report::{Row, Spread};
use crate::server::role::{Fanned, InProcess, Played, Ready, Started, Used};

/// How large the measurements are.
#[derive(Debug, Clone, Copy)]
struct Size {
    objects: u64,
    runs: u32,
    watchers: u32,
    seconds: u64,
    pods: u64,
}

const FULL: Size = Size {
    objects: 10_000,
    runs: 5,
    watchers: 1000,
    seconds: 10,
    pods: 100_000,
};

const QUICK: Size = Size {
    objects: 500,
    runs: 2,
    watchers: 50,
    seconds: 1,
    pods: 1000,
};

/// Writes per second to the object that everybody watches.
const WRITES: u64 = 100;

/// Runs all of them.
pub(crate) async fn measure(quick: bool) -> Outcome<Vec<Row>> {
    let size = if quick { QUICK } else { FULL };
    let mut rows = start(size).await?;
    rows.extend(in_process(size).await?);
    rows.extend(over_https(size).await?);
    for bytes in [1_000, 12_000] {
        rows.push(fan_out(size, bytes).await?);
    }
    for (deployments, tracked) in [(1, true), (1000, true), (1000, false)] {
        rows.push(played(size, deployments, tracked).await?);
    }
    Ok(rows)
}

/// From the start of a process to the first answer.
async fn start(size: Size) -> Outcome<Vec<Row>> {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..size.runs.max(5) {
        let mut actor = Actor::start(&["start"])?;
        let started: Started = actor.hear().await?;
        actor.end().await?;
        inside.push(started.in_process_ms);
        outside.push(started.https_ms);
    }
    let (inside, outside) = (Spread::of(inside), Spread::of(outside));
    Ok(vec![
        Row {
            what: "start of the process to the first answer, in process".to_owned(),
            figure: inside.show("ms"),
            wanted: "50 ms".to_owned(),
            met: inside.median < 50.0,
        },
        Row {
            what: "start of the process to the first answer over HTTPS, certificates included"
                .to_owned(),
            figure: outside.show("ms"),
            wanted: "50 ms".to_owned(),
            met: outside.median < 50.0,
        },
    ])
}

/// Lists and watches without sockets.
async fn in_process(size: Size) -> Outcome<Vec<Row>> {
    let (objects, runs) = (size.objects.to_string(), size.runs.to_string());
    let mut actor = Actor::start(&["in-process", "--objects", &objects, "--runs", &runs])?;
    let answer: InProcess = actor.hear().await?;
    actor.end().await?;
    let each = answer.bytes / size.objects;
    let row = |what: &str, rates: Vec<f64>| {
        let rates = Spread::of(rates);
        Row {
            what: format!(
                "{what}, {} Pods of {:.1} kB, in process",
                size.objects,
                each as f64 / 1e3
            ),
            figure: rates.show("MB/s"),
            wanted: "500 MB/s".to_owned(),
            met: rates.median > 500.0,
        }
    };
    Ok(vec![
        row("list in pages of 500", answer.pages),
        row("WatchList", answer.watch_list),
        Row {
            what: format!(
                "creating these Pods and their status, {} writes, in process",
                2 * size.objects
            ),
            figure: format!("{:.0} writes/s", answer.writes_per_second),
            wanted: String::new(),
            met: true,
        },
        Row {
            what: format!(
                "resident memory of the server with these {} Pods",
                size.objects
            ),
            figure: format!(
                "{:.0} kB each",
                answer.resident as f64 / 1e3 / size.objects as f64
            ),
            wanted: String::new(),
            met: true,
        },
    ])
}

/// The same over sockets, from another process.
async fn over_https(size: Size) -> Outcome<Vec<Row>> {
    let objects = size.objects.to_string();
    let mut server = Actor::start(&["serve", "--objects", &objects])?;
    let ready: Ready = server.hear().await?;
    let place = serde_json::to_string(&ready.place)?;
    let runs = size.runs.to_string();
    let mut client = Actor::start(&["fetch", "--place", &place, "--runs", &runs])?;
    let rates: (Vec<f64>, Vec<f64>) = client.hear().await?;
    client.end().await?;
    server.end().await?;
    let row = |what: &str, rates: Vec<f64>| Row {
        what: format!("{what}, the same Pods, over HTTPS to another process"),
        figure: Spread::of(rates).show("MB/s"),
        wanted: String::new(),
        met: true,
    };
    Ok(vec![
        row("list in one page", rates.0),
        row("WatchList", rates.1),
    ])
}

/// Many watchers of one kind, and a steady trickle of writes; several times, for this figure depends
/// more than others on what else the machine does.
async fn fan_out(size: Size, bytes: u64) -> Outcome<Row> {
    let (mut cores, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..size.runs {
        let (used, rate) = fanned(size, bytes).await?;
        cores.push(used);
        rates.push(rate);
    }
    let (cores, rates) = (Spread::of(cores), Spread::of(rates));
    let small = bytes < 5000;
    Ok(Row {
        what: format!(
            "{} watchers of one kind over HTTPS, {WRITES} writes/s of {} kB each ({:.0} deliveries/s): processor of the server",
            size.watchers,
            bytes / 1000,
            rates.median
        ),
        figure: cores.show("cores"),
        wanted: if small {
            "1 core".to_owned()
        } else {
            String::new()
        },
        met: !small || cores.median < 1.0,
    })
}

/// The cores that the server used, and the deliveries per second.
async fn fanned(size: Size, bytes: u64) -> Outcome<(f64, f64)> {
    let mut server = Actor::start(&["serve", "--objects", "0"])?;
    let ready: Ready = server.hear().await?;
    let place = serde_json::to_string(&ready.place)?;
    let watchers = size.watchers.to_string();
    let mut client = Actor::start(&["watch", "--place", &place, "--watchers", &watchers])?;
    let open: u32 = client.hear().await?;
    let before: Used = server.ask("cpu").await?;
    let writes = WRITES * size.seconds;
    let ask = format!("write {writes} {WRITES} {bytes}");
    let took: f64 = server.ask(&ask).await?;
    let wanted = u64::from(open) * writes;
    let fanned: Fanned = client.ask(&wanted.to_string()).await?;
    let after: Used = server.ask("cpu").await?;
    client.end().await?;
    server.end().await?;
    if fanned.events < wanted {
        return Err(format!("{} of {wanted} events arrived", fanned.events).into());
    }
    let seconds = took.max(Duration::from_secs(1).as_secs_f64());
    Ok(((after.cpu - before.cpu) / seconds, wanted as f64 / took))
}

/// Pods that the player brings from Deployments to ready.
async fn played(size: Size, deployments: u64, tracked: bool) -> Outcome<Row> {
    let (pods, count) = (size.pods.to_string(), deployments.to_string());
    let mut arguments = vec!["player", "--pods", &pods, "--deployments", &count];
    if !tracked {
        arguments.push("--no-managed-fields");
    }
    let mut actor = Actor::start(&arguments)?;
    let answer: Played = actor.hear().await?;
    actor.end().await?;
    let noted = if tracked { "" } else { ", managed fields off" };
    Ok(Row {
        what: format!(
            "{pods} Pods of {deployments} Deployments created, bound and ready by the player{noted} ({:.1} kB each resident)",
            answer.resident as f64 / 1e3 / size.pods as f64
        ),
        figure: format!("{:.0} Pods/s", answer.pods_per_second),
        wanted: "5000 Pods/s".to_owned(),
        met: answer.pods_per_second > 5000.0,
    })
}
