//! Driver: starts a process that caches the objects of a world.

use super::words::{ClientRole, MeasuredCache, SyncTask, Synced};
use crate::process::{Actor, BenchResult, print_result, progress};
use crate::world::World;

pub(crate) fn asked(world: &World, by: MeasuredCache, objects: u64) -> SyncTask {
    SyncTask {
        kubeconfig: world.kubeconfig.clone(),
        namespace: world.namespace().map(ToOwned::to_owned),
        of: world.of,
        objects,
        by,
    }
}

/// Measures several caches in turn, and returns all runs of each.
pub(crate) async fn in_turns<const N: usize>(
    world: &World,
    of: [MeasuredCache; N],
    objects: u64,
    runs: u32,
) -> BenchResult<[Vec<Synced>; N]> {
    let mut all = [const { Vec::new() }; N];
    for run in 1..=runs {
        progress(format!("run {run} of {runs}"));
        for (by, synced) in of.into_iter().zip(&mut all) {
            let role = ClientRole::Sync(asked(world, by, objects));
            let done: Synced = Actor::client(&role)?.report().await?;
            print_result(format!("{by:?}: {objects} synced in {:.2} s", done.seconds));
            synced.push(done);
        }
    }
    Ok(all)
}
