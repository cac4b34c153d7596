//! Driver: measures the work queue, and controllers from an event to a reconcile.

use super::children;
use super::latency::Latency;
use super::running::beside_peer;
use super::storm::StormFigures;
use super::sync::asked;
use super::words::{ClientRole, Queued};
use crate::figures::Figures;
use crate::process::{Actor, BenchResult, progress};
use crate::report::{Figure, KUBE_RUNTIME, Spread};
use crate::samples::Sample;
use crate::world::Worlds;

#[derive(Debug, Clone, Copy)]
struct ControllerSize {
    keys: u64,
    /// Objects that are reconciled once.
    objects: u64,
    /// Objects that own a child.
    owners: u64,
    rounds: usize,
    runs: u32,
}

const FULL: ControllerSize = ControllerSize {
    keys: 1_000_000,
    objects: 50_000,
    owners: 10_000,
    rounds: 1_000,
    runs: 5,
};

const QUICK: ControllerSize = ControllerSize {
    keys: 10_000,
    objects: 500,
    owners: 100,
    rounds: 50,
    runs: 2,
};

pub(crate) async fn measure(quick: bool) -> BenchResult<Vec<Figure>> {
    let size = if quick { QUICK } else { FULL };
    let mut figures = Figures::shown();
    figures.measure(queued(size)).await?;
    figures.measure(late(size)).await?;
    figures.measure(stormed(size)).await?;
    figures
        .measure(children::measure_all(size.owners, size.runs))
        .await?;
    Ok(figures.all())
}

async fn late(size: ControllerSize) -> BenchResult<Vec<Figure>> {
    let rounds = size.rounds;
    let (mut runs, mut peers): (Vec<Latency>, Vec<Latency>) = (Vec::new(), Vec::new());
    for run in 1..=size.runs {
        progress(format!("{rounds} changes, run {run} of {}", size.runs));
        let role = |by| ClientRole::Latency { by, rounds };
        beside_peer(role, (&mut runs, &mut peers)).await?;
    }
    let figure = |id: &str, what: String, of: fn(&Latency) -> f64| {
        let what = format!("{what}, {rounds} changes, no other load, over HTTPS on one machine");
        let figure = Figure::new(id, what, "µs", Spread::over(&runs, of));
        figure.beside(KUBE_RUNTIME, Spread::over(&peers, of))
    };
    // The commit lies between the call and the return, and only the server knows when: measuring
    // from the call includes time before the commit.
    let call = "time from the call of the server's write (including the write) to the start of `reconcile`";
    let returned =
        "time from the return of the server's write (after the commit) to the start of `reconcile`";
    let [call50, returned50] = [call, returned].map(|from| format!("{from}, median"));
    let [call99, returned99] = [call, returned].map(|from| format!("{from}, 99th percentile"));
    Ok(vec![
        figure("controller/latency/call", call50, |one| one.p50).at_most(150.0),
        figure("controller/latency/call99", call99, |one| one.p99).at_most(1000.0),
        figure("controller/latency/p50", returned50, |one| {
            one.p50_of_return
        }),
        figure("controller/latency/p99", returned99, |one| {
            one.p99_of_return
        }),
    ])
}

/// Measures one reconcile of every object after the start, in comparison with kube-runtime.
async fn stormed(size: ControllerSize) -> BenchResult<Vec<Figure>> {
    let mut worlds = Worlds::of(None).await?;
    let world = worlds.start(Sample::ConfigMap, size.objects).await?;
    let (mut own, mut peer): (Vec<StormFigures>, Vec<StormFigures>) = (Vec::new(), Vec::new());
    for run in 1..=size.runs {
        progress(format!("run {run} of {} of each controller", size.runs));
        let role = |by| ClientRole::Storm(asked(&world, by, size.objects));
        beside_peer(role, (&mut own, &mut peer)).await?;
    }
    world.end().await?;
    let of = format!(
        "{} ConfigMaps, each reconciled once, 8 workers",
        size.objects
    );
    let rate = |runs: &[StormFigures]| Spread::over(runs, |one| one.per_second);
    let all = |runs: &[StormFigures]| Spread::over(runs, |one| one.first_seconds + one.seconds);
    let beside = |id: &str, what: &str| {
        let what = format!("{what}, from the first reconcile to the last, {of}");
        Figure::new(id, what, "reconciles/s", rate(&own))
            .more_is_better()
            .beside(KUBE_RUNTIME, rate(&peer))
    };
    let compared = "rate of reconciles compared with kube-runtime";
    let whole = format!("time from the start of the process to the last reconcile, {of}");
    Ok(vec![
        beside("controller/storm/rate", "rate of reconciles").at_least(400_000.0),
        beside("controller/storm/ratio", compared).ratio(1.3),
        Figure::new("controller/storm/seconds", whole, "s", all(&own))
            .beside(KUBE_RUNTIME, all(&peer)),
    ])
}

async fn queued(size: ControllerSize) -> BenchResult<Vec<Figure>> {
    let keys = size.keys;
    progress(format!("{} runs of the work queue", size.runs));
    let mut runs: Vec<Queued> = Vec::new();
    for _ in 0..size.runs {
        runs.push(Actor::client(&ClientRole::Queue { keys })?.report().await?);
    }
    let figure = |id: &str, what: &str, most: f64, of: &dyn Fn(&Queued) -> f64| {
        let what = format!(
            "work queue, time per key of add, next and done, {keys} keys `ns-i/name-i`, {what}"
        );
        let id = format!("controller/queue/{id}");
        Figure::new(&id, what, "ns", Spread::over(&runs, of)).at_most(most)
    };
    let batch = "one thread, all keys added before the first is taken";
    let single = "one thread, each key taken directly after it was added";
    let concurrent = "keys added on one thread and taken on another";
    Ok(vec![
        figure("batch", batch, 205.0, &|one| one.batch_ns),
        figure("single", single, 205.0, &|one| one.single_ns),
        figure("concurrent", concurrent, 300.0, &|one| one.concurrent_ns),
    ])
}
