//! Machine: the times of the last runs of each key, which decide when a key may run again.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::key::Key;
use crate::limiter::LONGEST_DELAY;

/// The number of keys from which keys without recent runs are swept.
const SWEEP_FROM: usize = 1024;

/// The start times of the last runs of each key. In any span of `per` at most `runs` runs of a key begin (WQ-13).
///
/// The times of a key are removed some time after they are older than `per`.
#[derive(Debug)]
pub(crate) struct Windows<T> {
    runs: usize,
    per: Duration,
    /// The last start times of each key, at most `runs`, the earliest first.
    begun: HashMap<T, VecDeque<Instant>>,
    /// The number of keys at which the next sweep begins.
    sweep_at: usize,
}

impl<T: Key> Windows<T> {
    /// Makes a limit of `runs` in any span of `per`. Zero runs count as 1.
    pub(crate) fn new(runs: u32, per: Duration) -> Self {
        Self {
            runs: usize::try_from(runs.max(1)).unwrap_or(usize::MAX),
            per: per.min(LONGEST_DELAY),
            begun: HashMap::new(),
            sweep_at: SWEEP_FROM,
        }
    }

    /// Returns the instant at which the key may run again; `None` if it may run at `now`.
    pub(crate) fn next_free(&self, key: &T, now: Instant) -> Option<Instant> {
        let begun = self.begun.get(key)?;
        let first = begun.front().filter(|_| begun.len() >= self.runs)?;
        let free = first.checked_add(self.per)?;
        (free > now).then_some(free)
    }

    pub(crate) fn begin(&mut self, key: &T, at: Instant) {
        match self.begun.get_mut(key) {
            Some(begun) => {
                if begun.len() >= self.runs {
                    begun.pop_front();
                }
                begun.push_back(at);
            }
            None => {
                self.sweep(at);
                self.begun.insert(key.clone(), VecDeque::from([at]));
            }
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self.begun.len() < self.sweep_at {
            return;
        }
        let per = self.per;
        let counts = |at: &Instant| at.checked_add(per).is_none_or(|end| end > now);
        self.begun
            .retain(|_, begun| begun.back().is_some_and(counts));
        self.begun.shrink_to(SWEEP_FROM);
        self.sweep_at = (2 * self.begun.len()).max(SWEEP_FROM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_holds_more_runs_than_the_limit() {
        let start = tokio::time::Instant::now().into_std();
        let at = |millis| start + Duration::from_millis(millis);
        let mut windows = Windows::new(2, Duration::from_millis(3000));
        let mut begun = Vec::new();
        for millis in (0..20_000).step_by(100) {
            if windows.next_free(&"a", at(millis)).is_none() {
                windows.begin(&"a", at(millis));
                begun.push(millis);
            }
        }
        assert_eq!(begun[..6], [0, 100, 3000, 3100, 6000, 6100]);
        assert_eq!(windows.next_free(&"b", at(0)), None, "keys do not share");
    }

    #[test]
    fn times_without_effect_are_removed() {
        let start = tokio::time::Instant::now().into_std();
        let mut windows = Windows::new(3, Duration::from_secs(1));
        for key in 0..100_000_u32 {
            windows.begin(&key, start + Duration::from_millis(key.into()));
            assert!(windows.begun.len() <= 2 * SWEEP_FROM);
        }
    }

    #[test]
    fn extreme_limits_do_not_panic() {
        let now = tokio::time::Instant::now().into_std();
        for (runs, per) in [(0, Duration::MAX), (u32::MAX, Duration::ZERO)] {
            let mut windows = Windows::new(runs, per);
            windows.begin(&1, now);
            let _: Option<Instant> = windows.next_free(&1, now);
        }
    }
}
