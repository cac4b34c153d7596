//! Driver: measures the memory of Pods and the cost of reads under different options of the cache.

use super::sync::in_turns;
use super::words::MeasuredCache::{
    self, Budget, Decoded, Defaults, Json, Metadata, Selected, Small, Tree, Whole,
};
use crate::process::{BenchResult, print_result, progress};
use crate::report::{Figure, Spread};
use crate::samples::Sample;
use crate::world::Worlds;

/// The options, with their names in ids and in labels.
const OPTIONS: [(MeasuredCache, &str, &str); 11] = [
    (Defaults, "defaults", "default options (budget of 64 MiB)"),
    (Json, "json", "JSON instead of protobuf"),
    (Budget(0), "packed", "budget of 0 (all objects packed)"),
    (Budget(16 << 20), "16MiB", "budget of 16 MiB"),
    (Budget(256 << 20), "256MiB", "budget of 256 MiB"),
    (Decoded, "decoded", "no budget (all objects decoded)"),
    (Metadata, "metadata", "metadata only"),
    (Small, "small", "view as a struct with one field"),
    (Tree, "dynamic", "view as `DynamicObject`"),
    (
        Selected,
        "selected",
        "one object in three, by label selector",
    ),
    (Whole, "managed-fields", "`managedFields` kept"),
];

/// Runs all measurements on one server that grows.
pub(crate) async fn measure(worlds: &mut Worlds, quick: bool) -> BenchResult<Vec<Figure>> {
    // Each number of objects, and its number of runs.
    let sizes: &[(u64, u32)] = if quick {
        &[(100, 1), (500, 1)]
    } else {
        &[(1_000, 5), (10_000, 5), (100_000, 1)]
    };
    let mut world = worlds.start(Sample::Pod, 0).await?;
    let (mut weights, mut reads) = (Vec::new(), Vec::new());
    for (objects, runs) in sizes.iter().copied() {
        world.grow(objects).await?;
        progress(format!("{runs} runs of each option with {objects}"));
        let all = in_turns(&world, OPTIONS.map(|(who, ..)| who), objects, runs).await?;
        for ((_, name, what), synced) in OPTIONS.iter().zip(&all) {
            let weight = Spread::over(synced, |one| one.read as f64 / 1e6);
            let read = Spread::over(synced, |one| one.spread_ns / 1e3);
            let resident = format!("options/resident/{name}");
            let get = format!("options/get/{name}");
            let memory = format!("resident memory, {what}");
            let time = format!("time per read by key, {what}");
            let weight = Figure::new(&resident, memory, "MB", weight).at(objects);
            let read = Figure::new(&get, time, "µs", read).at(objects);
            [&weight, &read].into_iter().for_each(print_result);
            weights.push(weight);
            reads.push(read);
        }
    }
    world.end().await?;
    weights.extend(reads);
    Ok(weights)
}
