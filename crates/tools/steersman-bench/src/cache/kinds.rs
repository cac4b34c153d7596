//! Driver: measures kinds other than Pods, from similar objects to random ones.

use super::sync::in_turns;
use super::words::MeasuredCache::{Defaults, Json, KubeRuntime};
use super::words::{START_TO_SYNCED, Synced};
use crate::figures::Figures;
use crate::process::{BenchResult, progress};
use crate::report::{Figure, IN_JSON, KUBE_RUNTIME, Spread};
use crate::samples::Sample::{self, ConfigMap, Event, Secret, Widget};
use crate::world::Worlds;

/// The kinds, with their names in ids and in labels.
const KINDS: [(Sample, &str, &str); 4] = [
    (ConfigMap, "config-map", "ConfigMaps with distinct data"),
    (Secret, "secret", "Secrets"),
    (Event, "event", "Events"),
    (Widget, "widget", "custom resources"),
];

pub(crate) async fn measure(worlds: &mut Worlds, quick: bool) -> BenchResult<Vec<Figure>> {
    let (objects, runs) = if quick { (200, 1) } else { (10_000, 5) };
    let mut figures = Figures::shown();
    for (of, name, what) in KINDS {
        let world = worlds.start(of, objects).await?;
        progress(format!("{runs} runs of each cache"));
        let of_each = [Defaults, KubeRuntime, Json];
        let [own, peer, json] = in_turns(&world, of_each, objects, runs).await?;
        world.end().await?;
        let bytes = peer.iter().map(|one| one.bytes_each).max();
        let kilobytes = bytes.unwrap_or_default() as f64 / 1e3;
        let what = format!("{objects} {what}, {kilobytes:.1} kB each");
        let beside = |id: &str, what: String, unit, figure: &dyn Fn(&Synced) -> f64| {
            let id = format!("kinds/{id}/{name}");
            Figure::new(&id, what, unit, Spread::over(&own, figure))
                .beside(KUBE_RUNTIME, Spread::over(&peer, figure))
                .beside(IN_JSON, Spread::over(&json, figure))
        };
        let time = format!("{START_TO_SYNCED}, {what}");
        figures.add(beside("seconds", time, "s", &|one| one.seconds));
        let time = format!("processor time of the client for that sync, {what}");
        figures.add(beside("cpu", time, "s", &|one| one.cpu));
        let memory = format!("resident memory per object, {what}, after each object was read once");
        let each = |one: &Synced| one.read as f64 / 1e3 / objects as f64;
        figures.add(beside("resident", memory, "kB", &each));
    }
    Ok(figures.all())
}
