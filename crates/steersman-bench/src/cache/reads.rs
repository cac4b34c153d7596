//! Driver: reads of a cache, each kind of them so often that the clock does not matter.

use std::hint::black_box;
use std::time::Duration;

use tokio::time::Instant;

use crate::process::{Outcome, cpu_time};

/// So many keys are read in turn.
pub(super) const KEYS: usize = 1000;

/// No round begins after that: reads that unpack are slow enough to be told by a few.
const ENOUGH: Duration = Duration::from_secs(1);

/// How often each of many keys is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    /// Before the clock starts: what a budget keeps for those who come again is there by then.
    before: u32,
    timed: u32,
}

impl Rounds {
    /// Of reads that take nanoseconds.
    pub(super) const MANY: Self = Self {
        before: 5,
        timed: 100,
    };
    /// Of reads that unpack and decode.
    pub(super) const FEW: Self = Self {
        before: 1,
        timed: 3,
    };

    /// What one of these reads takes, in nanoseconds.
    ///
    /// # Errors
    /// Where one does not find what is there.
    pub(super) fn timed(self, many: usize, mut read: impl FnMut(usize) -> bool) -> Outcome<f64> {
        let repeats = u32::try_from(KEYS / many.max(1)).unwrap_or(1);
        let mut found = true;
        for _ in 0..self.before {
            found &= (0..many).all(&mut read);
        }
        let before = Instant::now();
        let mut timed = 0;
        while timed < self.timed && before.elapsed() < ENOUGH {
            for _ in 0..repeats {
                for at in 0..many {
                    found &= black_box(read(at));
                }
            }
            timed += 1;
        }
        let took = before.elapsed().as_nanos() as f64;
        each(took, timed * repeats, many, found)
    }

    /// The same of reads that wait.
    ///
    /// # Errors
    /// As [`timed`](Self::timed).
    pub(super) async fn timed_async<F: Future<Output = bool>>(
        self,
        many: usize,
        mut read: impl FnMut(usize) -> F,
    ) -> Outcome<f64> {
        let mut found = true;
        for _ in 0..self.before {
            for at in 0..many {
                found &= read(at).await;
            }
        }
        let before = Instant::now();
        let mut timed = 0;
        while timed < self.timed && before.elapsed() < ENOUGH {
            for at in 0..many {
                found &= black_box(read(at).await);
            }
            timed += 1;
        }
        let took = before.elapsed().as_nanos() as f64;
        each(took, timed, many, found)
    }
}

/// What one of so many reads took, where all of them found what is there.
fn each(took: f64, rounds: u32, many: usize, found: bool) -> Outcome<f64> {
    if !found {
        return Err("a read does not find what is there".into());
    }
    Ok(took / f64::from(rounds) / many as f64)
}

/// Processor time of something large, in seconds: the mean of several.
///
/// # Errors
/// Where it does not find what is there.
pub(super) fn cpu_of(mut work: impl FnMut() -> bool) -> Outcome<f64> {
    const TIMES: u32 = 5;
    let before = cpu_time();
    let mut found = true;
    for _ in 0..TIMES {
        found &= black_box(work());
    }
    let took = (cpu_time() - before).as_secs_f64();
    each(took, TIMES, 1, found)
}

/// A thousand of them, from all over.
pub(super) fn spread<T>(all: &[T]) -> Vec<&T> {
    let step = (all.len() / KEYS).max(1);
    all.iter().step_by(step).take(KEYS).collect()
}

#[cfg(test)]
mod tests {
    use super::{Rounds, cpu_of};

    #[test]
    fn what_is_timed_was_read_before_and_is_found() {
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
