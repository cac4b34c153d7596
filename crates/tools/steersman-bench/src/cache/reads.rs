//! Driver: measures reads of a cache, each repeated until clock precision does not matter.

use std::hint::black_box;
use std::time::Duration;

use tokio::time::Instant;

use crate::process::{BenchResult, cpu_time};
use crate::report::Spread;

/// The number of keys that are read in turn.
pub(super) const KEYS: usize = 1000;

/// No round starts after this time: reads that unpack need only a few rounds.
const ENOUGH: Duration = Duration::from_secs(1);

/// The time in which background work after a sync ends, in this process and the server's.
pub(super) const REST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    /// Rounds before the measurement, which fill the decoded budget.
    before: u32,
    timed: u32,
}

impl Rounds {
    /// For reads that take nanoseconds.
    pub(super) const MANY: Self = Self {
        before: 5,
        timed: 100,
    };
    /// For reads that unpack and decode.
    pub(super) const FEW: Self = Self {
        before: 1,
        timed: 3,
    };

    /// Returns the time of one read, in nanoseconds. A read that does not find its object is an error.
    pub(super) fn timed(
        self,
        many: usize,
        mut read: impl FnMut(usize) -> bool,
    ) -> BenchResult<f64> {
        let repeats = u32::try_from(KEYS / many.max(1)).unwrap_or(1);
        let mut found = true;
        for _ in 0..self.before {
            found &= (0..many).all(&mut read);
        }
        let mut timed = Timed::default();
        while timed.goes_on(self) {
            let began = Instant::now();
            for _ in 0..repeats {
                for at in 0..many {
                    found &= black_box(read(at));
                }
            }
            timed.note(began);
        }
        each(timed.middle(), repeats, many, found)
    }

    /// Returns the time of one asynchronous read, in nanoseconds.
    pub(super) async fn timed_async(
        self,
        many: usize,
        mut read: impl AsyncFnMut(usize) -> bool,
    ) -> BenchResult<f64> {
        let mut found = true;
        for _ in 0..self.before {
            for at in 0..many {
                found &= read(at).await;
            }
        }
        let mut timed = Timed::default();
        while timed.goes_on(self) {
            let began = Instant::now();
            for at in 0..many {
                found &= black_box(read(at).await);
            }
            timed.note(began);
        }
        each(timed.middle(), 1, many, found)
    }
}

/// The times of the rounds, in nanoseconds. The median counts, because other processes disturb some rounds.
#[derive(Default)]
struct Timed {
    rounds: Vec<f64>,
}

impl Timed {
    fn goes_on(&self, rounds: Rounds) -> bool {
        let so_far: f64 = self.rounds.iter().sum();
        self.rounds.len() < rounds.timed as usize && so_far < ENOUGH.as_nanos() as f64
    }

    fn note(&mut self, began: Instant) {
        self.rounds.push(began.elapsed().as_nanos() as f64);
    }

    fn middle(self) -> f64 {
        Spread::of(self.rounds).median
    }
}

/// Reads each object once in a task of the runtime, as reconcilers do: allocators keep freed memory per thread.
pub(super) async fn read_each<K, S>(
    keys: Vec<K>,
    store: S,
    read: impl Fn(&S, &K) -> bool + Send + 'static,
) -> BenchResult<(Vec<K>, S)>
where
    K: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    let reading = tokio::spawn(async move {
        let mut found = true;
        for (number, key) in keys.iter().enumerate() {
            found &= read(&store, key);
            // Yields, so that other tasks run and this one moves between threads.
            if number % 64 == 63 {
                tokio::task::yield_now().await;
            }
        }
        found.then_some((keys, store))
    });
    reading.await?.ok_or_else(|| "an object is gone".into())
}

/// Returns the time per read, if all reads found their objects.
fn each(took: f64, rounds: u32, many: usize, found: bool) -> BenchResult<f64> {
    if !found {
        return Err("a read did not find its object".into());
    }
    Ok(took / f64::from(rounds) / many as f64)
}

/// Returns the mean processor time of several runs, in seconds. A run that does not find its objects is an error.
pub(super) fn cpu_of(mut work: impl FnMut() -> bool) -> BenchResult<f64> {
    const TIMES: u32 = 5;
    let before = cpu_time();
    let mut found = true;
    for _ in 0..TIMES {
        found &= black_box(work());
    }
    let took = (cpu_time() - before).as_secs_f64();
    each(took, TIMES, 1, found)
}

/// Returns a thousand elements, spread evenly.
pub(super) fn spread<T>(all: &[T]) -> Vec<&T> {
    let step = (all.len() / KEYS).max(1);
    all.iter().step_by(step).take(KEYS).collect()
}

#[cfg(test)]
mod tests {
    use super::{Rounds, cpu_of};

    #[test]
    fn timed_reads_are_warmed_up_and_must_find_their_objects() {
        let rounds = Rounds {
            before: 3,
            timed: 2,
        };
        let mut reads = vec![0; 1000];
        let count = |at: usize| {
            reads[at] += 1;
            true
        };
        assert!(rounds.timed(1000, count).unwrap() > 0.0);
        assert_eq!(reads, vec![5; 1000]);
        assert!(rounds.timed(10, |at| at != 7).is_err());
        assert!(cpu_of(|| false).is_err());
    }
}
