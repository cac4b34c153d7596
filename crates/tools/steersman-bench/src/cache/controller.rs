//! Driver: measures the work queue, and controllers from an event to a reconcile.

use super::children;
use super::latency::Latency;
use super::running::beside_peer;
use super::storm::StormFigures;
use super::sync::asked;
use super::words::{ClientRole, Queued};
use crate::figures::Figures;
use crate::process::{Actor, BenchResult, repeat};
use crate::report::{Figure, Spread};
use crate::samples::Sample;
use crate::world::Worlds;

pub(crate) async fn measure(quick: bool) -> BenchResult<Vec<Figure>> {
    let (keys, changes, objects, owners, runs) = if quick {
        (10_000, 50, 500, 100, 2)
    } else {
        (1_000_000, 1_000, 50_000, 10_000, 5)
    };
    let mut figures = Figures::shown();
    figures.measure(queued(keys, runs)).await?;
    figures.measure(late(changes, runs)).await?;
    figures.measure(stormed(objects, runs)).await?;
    figures.measure(children::measure_all(owners, runs)).await?;
    Ok(figures.all())
}

async fn late(rounds: usize, times: u32) -> BenchResult<Vec<Figure>> {
    let role = |by| ClientRole::Latency { by, rounds };
    let what = format!("{rounds} changes");
    let runs = repeat(times, what, async || beside_peer(&role).await).await?;
    let figure = |id: &str, what: String, of: fn(&Latency) -> f64| {
        let what = format!("{what}, {rounds} changes, no other load, over HTTPS on one machine");
        Figure::compared(id, what, "µs", &runs, of)
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
        figure("controller/latency/p50", returned50, |one| one.p50_after),
        figure("controller/latency/p99", returned99, |one| one.p99_after),
    ])
}

/// Measures one reconcile of every object after the start, in comparison with kube-runtime.
async fn stormed(objects: u64, times: u32) -> BenchResult<Vec<Figure>> {
    let world = Worlds::Own.start(Sample::ConfigMap, objects).await?;
    let role = |by| ClientRole::Storm(asked(&world, by, objects));
    let runs: Vec<[StormFigures; 2]> =
        repeat(times, "each controller", async || beside_peer(&role).await).await?;
    world.end().await?;
    let of = format!("{objects} ConfigMaps, each reconciled once, 8 workers");
    let beside = |id: &str, what: &str| {
        let what = format!("{what}, from the first reconcile to the last, {of}");
        Figure::compared(id, what, "reconciles/s", &runs, |one| one.per_second).more_is_better()
    };
    let compared = "rate of reconciles compared with kube-runtime";
    let whole = format!("time from the start of the process to the last reconcile, {of}");
    Ok(vec![
        beside("controller/storm/rate", "rate of reconciles").at_least(400_000.0),
        beside("controller/storm/ratio", compared).ratio(1.3),
        Figure::compared("controller/storm/seconds", whole, "s", &runs, |one| {
            one.first_seconds + one.seconds
        }),
    ])
}

async fn queued(keys: u64, times: u32) -> BenchResult<Vec<Figure>> {
    let role = ClientRole::Queue { keys };
    let runs: Vec<Queued> = repeat(times, "the work queue", async || {
        Actor::client(&role)?.report().await
    })
    .await?;
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
