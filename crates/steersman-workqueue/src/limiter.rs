//! Words: rate limiters: how long a key that failed waits before its next run.

mod exponential;
mod bucket;
mod max_of;

use std::time::{Duration, Instant};

pub use bucket::Bucket;
pub use exponential::Exponential;
pub use max_of::MaxOf;

/// Decides the delay of a key that is added with backoff.
///
/// The queue calls a limiter under its lock, so a limiter must be quick and must not wait. It is given
/// the time and never reads a clock.
pub trait RateLimiter<T>: Send + 'static {
    /// Counts one failure of `key`, and returns the delay until its next run.
    fn delay(&mut self, key: &T, now: Instant) -> Duration;

    /// Forgets the failures of `key`; its next failure counts as the first.
    fn forget(&mut self, key: &T);

    /// Returns the number of failures of `key` since it was last forgotten.
    fn failures(&self, key: &T) -> u32;
}

impl<T: 'static> RateLimiter<T> for Box<dyn RateLimiter<T>> {
    fn delay(&mut self, key: &T, now: Instant) -> Duration {
        (**self).delay(key, now)
    }

    fn forget(&mut self, key: &T) {
        (**self).forget(key);
    }

    fn failures(&self, key: &T) -> u32 {
        (**self).failures(key)
    }
}
