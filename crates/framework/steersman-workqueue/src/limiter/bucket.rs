//! Machine: one token bucket that all keys share.

use std::time::{Duration, Instant};

use crate::limiter::RateLimiter;

/// A token bucket that all keys share: `burst` keys at once, then one per `interval`.
///
/// A bucket counts no failures of single keys; combine it with [`Exponential`](super::Exponential) by
/// [`MaxOf`](super::MaxOf). It never refuses a key: each key reserves the next free token and waits for that token.
#[derive(Debug)]
pub struct Bucket {
    interval: Duration,
    tolerance: Duration,
    // The instant at which the bucket is full again; `None` before the first use.
    full_at: Option<Instant>,
}

impl Bucket {
    /// Makes a bucket of `burst` tokens that gains one token per `interval`. A burst of 0 counts as 1.
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.max(1)),
            full_at: None,
        }
    }
}

impl<T> RateLimiter<T> for Bucket {
    fn delay(&mut self, _key: &T, now: Instant) -> Duration {
        let from = self.full_at.map_or(now, |full_at| full_at.max(now));
        let Some(full_at) = from.checked_add(self.interval) else {
            return self.interval;
        };
        self.full_at = Some(full_at);
        full_at
            .saturating_duration_since(now)
            .saturating_sub(self.tolerance)
    }

    fn forget(&mut self, _key: &T) {}

    fn failures(&self, _key: &T) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_queue_up() {
        let now = tokio::time::Instant::now().into_std();
        let mut bucket = Bucket::new(Duration::from_millis(100), 3);
        let mut delays = |at: Instant, n: usize| -> Vec<u128> {
            (0..n)
                .map(|_| RateLimiter::<u8>::delay(&mut bucket, &0, at).as_millis())
                .collect()
        };
        assert_eq!(delays(now, 5), [0, 0, 0, 100, 200]);
        assert_eq!(delays(now + Duration::from_secs(10), 4), [0, 0, 0, 100]);
    }

    #[test]
    fn extreme_intervals_do_not_panic() {
        let now = tokio::time::Instant::now().into_std();
        let mut bucket = Bucket::new(Duration::MAX, 0);
        for _ in 0..3 {
            let _: Duration = RateLimiter::<u8>::delay(&mut bucket, &0, now);
        }
    }
}
