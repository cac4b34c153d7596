//! Driver: runs seeded simulations on every core, and names the seed that failed.

mod seeded_rng;
mod disruption;

use std::env;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub use disruption::Disruption;
pub use seeded_rng::SeededRng;

/// The variable that overrides the seeds of [`live`]: `0..10000`, or `17..18` for a single seed.
pub const SEEDS: &str = "STEERSMAN_SEEDS";

/// Not a seed, because the end of a range is exclusive.
const NONE: u64 = u64::MAX;

/// Runs a simulation for each of the `usual` seeds, or for those in [`SEEDS`], several at a time on their own threads.
///
/// A simulation panics if a check fails. No further simulation is started then, and the panic of
/// this function names the seed and the command that repeats it: `again`, followed by the seed.
///
/// ```
/// steersman_testenv::seeds::live(0..100, "STEERSMAN_SEEDS=N..N+1 cargo test, where N is", |seed| {
///     // A runtime with a paused clock, an `ApiServer` of this seed, and the checks.
///     assert_eq!(seed.wrapping_sub(seed), 0);
/// });
/// ```
///
/// # Panics
/// If a simulation panics, or the variable is not a range.
pub fn live(usual: Range<u64>, again: &str, world: impl Fn(u64) + Sync) {
    let seeds = match env::var(SEEDS) {
        Ok(text) => match range(&text) {
            Some(seeds) => seeds,
            None => panic!("{SEEDS}={text:?} is not a range such as 0..1000"),
        },
        Err(_) => usual,
    };
    if let Some(seed) = first_failed(seeds, &world) {
        panic!("seed {seed} fails, for the reason above; again: {again} {seed}");
    }
}

fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

/// Returns the lowest seed that failed before the remaining simulations were skipped.
fn first_failed(seeds: Range<u64>, world: &(impl Fn(u64) + Sync)) -> Option<u64> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(NONE);
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.load(Ordering::Relaxed) != NONE {
                        return;
                    }
                    // The state of a failed simulation is not used again.
                    if catch_unwind(AssertUnwindSafe(|| world(seed))).is_err() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Some(failed.into_inner()).filter(|failed| *failed != NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_runs_once_and_the_first_failed_seed_is_named() {
        let sum = AtomicU64::new(0);
        let add = |seed| {
            sum.fetch_add(seed, Ordering::Relaxed);
        };
        assert_eq!(first_failed(5..10, &add), None);
        assert_eq!(sum.into_inner(), 5 + 6 + 7 + 8 + 9);

        let fails = |seed| assert!(seed < 7, "on purpose");
        assert_eq!(first_failed(7..8, &fails), Some(7));
        assert!(first_failed(0..100, &fails).is_some_and(|seed| seed >= 7));
    }

    #[test]
    fn a_range_is_two_numbers() {
        assert_eq!(range("17..18"), Some(17..18));
        for text in ["", "17", "17..", "a..b", "1..=2"] {
            assert_eq!(range(text), None, "{text:?}");
        }
    }
}
