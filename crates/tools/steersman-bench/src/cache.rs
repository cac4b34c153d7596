//! Driver: measures the cache in comparison with kube-runtime's reflector, on the same objects of the same server.
//!
//! Each figure comes from a new process with the system's allocator that does no other work; the
//! server is a separate process.

pub(crate) mod words;
mod reads;
mod running;
mod peers;
mod queue;
mod storm;
mod apart;
mod reconcile_count;
mod children;
pub(crate) mod admission;
pub(crate) mod port;
mod latency;
mod outage;
mod unseen;
mod explored;
mod replica;
mod observed;
pub(crate) mod load;
pub(crate) mod steady;
pub(crate) mod role;
mod sync;
pub(crate) mod controller;
pub(crate) mod kinds;
pub(crate) mod options;
pub(crate) mod scaling;

use crate::cache::sync::in_turns;
use crate::cache::words::MeasuredCache::{
    Budget, Decoded, Defaults, Http1, Json, KubeRuntime, KubeRuntimeBare,
};
use crate::cache::words::{START_TO_SYNCED, Synced};
use crate::figures::Figures;
use crate::process::{BenchResult, progress};
use crate::report::{Figure, IN_JSON, KUBE_RUNTIME, Spread};
use crate::samples::{Sample, TOGETHER};
use crate::world::Worlds;

pub(crate) async fn measure(worlds: &mut Worlds, quick: bool) -> BenchResult<Vec<Figure>> {
    let (timed_objects, weighed_objects, runs) = if quick {
        (200, 500, 2)
    } else {
        (10_000, 50_000, 5)
    };
    let mut figures = Figures::shown();
    figures.measure(timed(worlds, timed_objects, runs)).await?;
    figures
        .measure(weighed(worlds, weighed_objects, runs))
        .await?;
    figures.measure(unseen::measure_all(runs, quick)).await?;
    figures.measure(outage::measure_all(quick)).await?;
    Ok(figures.all())
}

/// Measures the time from a cold start until all Pods are cached, in turns, and reads of packed Pods.
async fn timed(worlds: &mut Worlds, objects: u64, runs: u32) -> BenchResult<Vec<Figure>> {
    let world = worlds.start(Sample::Pod, objects).await?;
    let of = [Defaults, KubeRuntime, Budget(0), Http1, Json];
    progress(format!("{runs} runs of each cache"));
    let [own, peer, packed, http1, json] = in_turns(&world, of, objects, runs).await?;
    world.end().await?;
    let each = peer.iter().map(|one| one.bytes_each).max();
    let pods = format!("{objects} Pods");
    let kilobytes = each.unwrap_or_default() as f64 / 1e3;
    let on = format!("{pods} of {kilobytes:.1} kB, WatchList over HTTPS");
    let beside = |id: &str, what: &str, of: &dyn Fn(&Synced) -> f64| {
        Figure::new(id, format!("{what}, {on}"), "s", Spread::over(&own, of))
            .beside(KUBE_RUNTIME, Spread::over(&peer, of))
            .beside(IN_JSON, Spread::over(&json, of))
            .ratio(3.0)
    };
    let get = Spread::over(&packed, |one| one.spread_ns / 1e3);
    let list = Spread::over(&packed, |one| one.list_cpu);
    let get_of = format!("time per read by key, packed objects, 1000 keys of {pods} in turn");
    let list_of = format!("processor time per list of all {pods}, packed objects");
    let cpu = "processor time of the client from a cold start to one second after the sync";
    let http1_of = format!("{START_TO_SYNCED}, {on}, HTTP/1.1 instead of HTTP/2");
    let http1 = Spread::over(&http1, |one| one.seconds);
    Ok(vec![
        beside("cache/seconds", START_TO_SYNCED, &|one| one.seconds),
        Figure::new("cache/seconds/http1", http1_of, "s", http1),
        beside("cache/cpu", cpu, &|one| one.cpu),
        Figure::new("cache/packed/get", get_of, "µs", get).at_most(50.0),
        Figure::new("cache/packed/list", list_of, "s", list).at_most(0.5),
    ])
}

/// Measures the memory of many Pods, and the cost of reads.
async fn weighed(worlds: &mut Worlds, objects: u64, runs: u32) -> BenchResult<Vec<Figure>> {
    let world = worlds.start(Sample::Pod, objects).await?;
    let of = [Defaults, KubeRuntime, KubeRuntimeBare, Decoded];
    progress(format!("{runs} runs of each cache"));
    let [own, peer, bare, decoded] = in_turns(&world, of, objects, runs).await?;
    world.end().await?;
    let many = objects as f64;
    let read = |runs: &[Synced]| Spread::over(runs, |one| one.read as f64 / 1e3 / many);
    let resident = |runs: &[Synced]| Spread::over(runs, |one| one.resident as f64 / 1e3 / many);
    let peak = |runs: &[Synced]| Spread::over(runs, |one| one.peak as f64 / 1e6);
    let named = format!("{objects} Pods");
    let allowed = Spread::over(&own, |one| {
        one.peak as f64 / (1.3 * one.resident as f64 + 32e6)
    });
    let after_reads = format!("resident memory per Pod, {named}, after each Pod was read once");
    let before_reads =
        format!("resident memory per Pod, {named}, after the sync and before the first read");
    let peaks = format!("peak resident memory during the sync of {named}");
    let share = format!(
        "{peaks}, divided by its limit (1.3 times the resident memory after the sync, plus 32 MB)"
    );
    let mut figures = vec![
        Figure::new("cache/resident/read", after_reads, "kB", read(&own))
            .beside(KUBE_RUNTIME, read(&peer))
            .beside("kube-runtime without managedFields", read(&bare))
            .at_most(3.0),
        Figure::new("cache/resident/synced", before_reads, "kB", resident(&own))
            .beside(KUBE_RUNTIME, resident(&peer)),
        Figure::new("cache/peak", peaks, "MB", peak(&own)).beside(KUBE_RUNTIME, peak(&peer)),
        Figure::new("cache/peak/share", share, "", allowed)
            .at_most(1.0)
            .guarded(),
    ];
    figures.extend(read_decoded(&decoded, &peer, &named));
    Ok(figures)
}

/// Measures reads of decoded objects, in a cache without a budget limit.
fn read_decoded(own: &[Synced], peer: &[Synced], named: &str) -> Vec<Figure> {
    let read = |id: &str, what: String, most: f64, of: &dyn Fn(&Synced) -> f64| {
        let figure = Figure::new(&format!("cache/{id}"), what, "ns", Spread::over(own, of));
        figure.at_most(most)
    };
    let by_key = "time per read by key through";
    let turn = format!("decoded objects, 1000 keys of {named} in turn");
    let one = format!("{by_key} a `Store`, decoded objects, one key of {named}");
    let store = format!("{by_key} a `Store`, {turn}");
    let cache = format!("{by_key} the `Cache`, {turn}");
    let client = format!("{by_key} `client.get`, {turn}");
    let some = format!("decoded objects, {TOGETHER} of {named}");
    let field = format!("time per list by field index, {some}");
    let label = format!("time per list by label selector with a label index, {some}");
    vec![
        read("get/one", one, 60.0, &|one| one.hot_ns)
            .beside(KUBE_RUNTIME, Spread::over(peer, |one| one.hot_ns)),
        read("get/thousand", store, 60.0, &|one| one.spread_ns)
            .beside(KUBE_RUNTIME, Spread::over(peer, |one| one.spread_ns)),
        read("get/cache", cache, 250.0, &|one| one.cache_ns),
        read("get/client", client, 250.0, &|one| one.client_ns),
        read("list/field", field, 1000.0, &|one| one.index_ns),
        read("list/label", label, 2000.0, &|one| one.label_ns),
    ]
}
