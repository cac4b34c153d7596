//! Machine: a short delay for the first failures of a key, and a long delay for later ones.

use std::time::{Duration, Instant};

use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::limiter::failures::Failures;

/// Per-key delays: `fast` for the first failures, then `slow`; client-go's `ItemFastSlowRateLimiter`.
///
/// Only keys that failed since they were last forgotten use memory.
///
/// ```
/// use std::time::Duration;
///
/// use steersman_workqueue::QueueOptions;
/// use steersman_workqueue::limiter::FastSlow;
///
/// // Three quick retries, then one each minute.
/// let limiter = FastSlow::new(Duration::from_millis(50), Duration::from_secs(60), 3);
/// let options = QueueOptions::<String>::new("websites").rate_limiter(limiter);
/// ```
#[derive(Debug)]
pub struct FastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: Failures<T>,
}

impl<T: Key> FastSlow<T> {
    /// Makes a limiter with the delay `fast` for the first `fast_attempts` failures of a key, then `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self {
            fast,
            slow,
            fast_attempts,
            failures: Failures::new(),
        }
    }
}

impl<T: Key> RateLimiter<T> for FastSlow<T> {
    fn delay(&mut self, key: &T, _now: Instant) -> Duration {
        if self.failures.count(key) < self.fast_attempts {
            self.fast
        } else {
            self.slow
        }
    }

    fn forget(&mut self, key: &T) {
        self.failures.forget(key);
    }

    fn failures(&self, key: &T) -> u32 {
        self.failures.of(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failures_of_each_key_are_fast() {
        let now = tokio::time::Instant::now().into_std();
        let (fast, slow) = (Duration::from_millis(5), Duration::from_secs(10));
        let mut limiter = FastSlow::new(fast, slow, 3);
        let mut delays = |key: &str, n: usize| -> Vec<Duration> {
            let key = key.to_owned();
            (0..n).map(|_| limiter.delay(&key, now)).collect()
        };
        assert_eq!(delays("a", 5), [fast, fast, fast, slow, slow]);
        assert_eq!(delays("b", 1), [fast]);
        limiter.forget(&"a".to_owned());
        assert_eq!(limiter.failures(&"a".to_owned()), 0);
        assert_eq!(limiter.delay(&"a".to_owned(), now), fast);
        assert_eq!(limiter.failures(&"b".to_owned()), 1);
    }

    #[test]
    fn without_fast_attempts_every_failure_is_slow() {
        let now = tokio::time::Instant::now().into_std();
        let mut limiter = FastSlow::new(Duration::ZERO, Duration::MAX, 0);
        assert_eq!(limiter.delay(&1, now), Duration::MAX);
    }
}
