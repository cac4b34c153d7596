//! Machine: the longest delay of several limiters.

use std::time::{Duration, Instant};

use crate::limiter::RateLimiter;

/// Returns the longest delay of several limiters, each of which counts every failure.
#[derive(derive_more::Debug)]
#[debug("MaxOf {{ limiters: {} }}", limiters.len())]
pub struct MaxOf<T> {
    limiters: Vec<Box<dyn RateLimiter<T>>>,
}

impl<T: 'static> MaxOf<T> {
    /// Makes a combination of no limiters: every delay is zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            limiters: Vec::new(),
        }
    }

    /// Adds a limiter to the combination.
    #[must_use]
    pub fn and(mut self, limiter: impl RateLimiter<T>) -> Self {
        self.limiters.push(Box::new(limiter));
        self
    }
}

impl<T: 'static> Default for MaxOf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: 'static> RateLimiter<T> for MaxOf<T> {
    fn delay(&mut self, key: &T, now: Instant) -> Duration {
        self.limiters
            .iter_mut()
            .map(|limiter| limiter.delay(key, now))
            .max()
            .unwrap_or(Duration::ZERO)
    }

    fn forget(&mut self, key: &T) {
        for limiter in &mut self.limiters {
            limiter.forget(key);
        }
    }

    fn failures(&self, key: &T) -> u32 {
        self.limiters
            .iter()
            .map(|limiter| limiter.failures(key))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::{Bucket, Exponential};

    #[test]
    fn the_longest_delay_and_the_largest_count_win() {
        let now = tokio::time::Instant::now().into_std();
        let mut limiter = MaxOf::new()
            .and(Exponential::<u8>::default())
            .and(Bucket::new(Duration::from_millis(12), 1));
        let delays: Vec<u128> = (0..4).map(|_| limiter.delay(&1, now).as_millis()).collect();
        assert_eq!(delays, [5, 12, 24, 40]);
        assert_eq!(limiter.failures(&1), 4);
        limiter.forget(&1);
        assert_eq!(limiter.failures(&1), 0);
    }
}
