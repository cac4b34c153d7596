//! Machine: per-key delays that double with each failure, up to a cap.

use std::time::{Duration, Instant};

use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::limiter::failures::Failures;

/// Exponential backoff per key: `base`, then twice the last delay, at most `cap`.
///
/// The default is 5 ms doubling to 1000 s, as in controller-runtime. Only keys with failures use memory.
#[derive(Debug)]
pub struct Exponential<T> {
    base: Duration,
    cap: Duration,
    failures: Failures<T>,
}

impl<T: Key> Exponential<T> {
    /// Makes a limiter with the first delay `base` and the longest delay `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            failures: Failures::new(),
        }
    }

    fn delay_after(&self, earlier_failures: u32) -> Duration {
        // A factor beyond 32 bits is applied in two steps and saturates: 1 ns doubled 64 times exceeds any useful cap.
        let factor = 1_u32.checked_shl(earlier_failures);
        match factor {
            Some(factor) => self.base.saturating_mul(factor).min(self.cap),
            None if self.base.is_zero() => Duration::ZERO,
            None => self
                .base
                .saturating_mul(u32::MAX)
                .saturating_mul(1_u32.checked_shl(earlier_failures - 32).unwrap_or(u32::MAX))
                .min(self.cap),
        }
    }
}

impl<T: Key> Default for Exponential<T> {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<T: Key> RateLimiter<T> for Exponential<T> {
    fn delay(&mut self, key: &T, _now: Instant) -> Duration {
        let earlier = self.failures.count(key);
        self.delay_after(earlier)
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

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn doubles_from_the_base_to_the_cap() {
        let mut limiter = Exponential::<&str>::default();
        let delays: Vec<u128> = (0..20)
            .map(|_| limiter.delay(&"a", now()).as_millis())
            .collect();
        assert_eq!(delays[..5], [5, 10, 20, 40, 80]);
        assert_eq!(delays[17], 655_360);
        assert_eq!(delays[18], 1_000_000);
        assert_eq!(delays[19], 1_000_000);
        assert_eq!(limiter.failures(&"a"), 20);
    }

    #[test]
    fn forgetting_starts_again_and_keys_do_not_share() {
        let mut limiter = Exponential::<&str>::default();
        limiter.delay(&"a", now());
        limiter.delay(&"a", now());
        assert_eq!(limiter.delay(&"b", now()), Duration::from_millis(5));
        limiter.forget(&"a");
        assert_eq!(limiter.failures(&"a"), 0);
        assert_eq!(limiter.delay(&"a", now()), Duration::from_millis(5));
    }

    #[test]
    fn a_thousand_failures_and_extreme_options_do_not_overflow() {
        for (base, cap) in [
            (Duration::from_nanos(1), Duration::MAX),
            (Duration::MAX, Duration::MAX),
            (Duration::ZERO, Duration::from_secs(1)),
        ] {
            let mut limiter = Exponential::<u8>::new(base, cap);
            let mut last = Duration::ZERO;
            for _ in 0..1000 {
                let delay = limiter.delay(&1, now());
                assert!(delay >= last && delay <= cap);
                last = delay;
            }
        }
    }
}
