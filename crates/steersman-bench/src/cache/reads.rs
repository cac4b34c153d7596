//! Driver: reads of a cache, each kind of them so often that the clock does not matter.

use std::hint::black_box;

use tokio::time::Instant;

use crate::process::cpu_time;

/// So many keys are read in turn.
pub(super) const KEYS: usize = 1000;

/// How often each of many keys is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds(u32);

impl Rounds {
    /// Of reads that take nanoseconds.
    pub(super) const MANY: Self = Self(100);
    /// Of reads that unpack and decode.
    pub(super) const FEW: Self = Self(3);

    /// What one of these reads takes, in nanoseconds. Each is done once before.
    pub(super) fn timed(self, many: usize, mut read: impl FnMut(usize) -> bool) -> f64 {
        let rounds = self.0 * u32::try_from(KEYS / many.max(1)).unwrap_or(1);
        let mut found = (0..many).all(&mut read);
        let before = Instant::now();
        for _ in 0..rounds {
            for at in 0..many {
                found &= black_box(read(at));
            }
        }
        let took = before.elapsed().as_nanos() as f64;
        if found {
            took / f64::from(rounds) / many as f64
        } else {
            f64::NAN
        }
    }

    /// The same of reads that wait.
    pub(super) async fn timed_async<F: Future<Output = bool>>(
        self,
        many: usize,
        mut read: impl FnMut(usize) -> F,
    ) -> f64 {
        let mut found = true;
        for at in 0..many {
            found &= read(at).await;
        }
        let before = Instant::now();
        for _ in 0..self.0 {
            for at in 0..many {
                found &= black_box(read(at).await);
            }
        }
        let took = before.elapsed().as_nanos() as f64;
        if found {
            took / f64::from(self.0) / many as f64
        } else {
            f64::NAN
        }
    }
}

/// Processor time of something large, in seconds: the mean of several.
pub(super) fn cpu_of(mut work: impl FnMut() -> usize) -> f64 {
    const TIMES: u32 = 5;
    let before = cpu_time();
    for _ in 0..TIMES {
        black_box(work());
    }
    (cpu_time() - before).as_secs_f64() / f64::from(TIMES)
}

/// A thousand of them, from all over.
pub(super) fn spread<T>(all: &[T]) -> Vec<&T> {
    let step = (all.len() / KEYS).max(1);
    all.iter().step_by(step).take(KEYS).collect()
}
