//! Words: how long a key waits before it is tried again.

mod exponential;
mod bucket;
mod max_of;

use std::time::{Duration, Instant};

pub use bucket::Bucket;
pub use exponential::Exponential;
pub use max_of::MaxOf;

/// Decides the delay of a key that is added with backoff.
///
/// The queue calls a limiter under its lock, so a limiter must be quick and must not wait. It is
/// told the time; it never reads a clock.
pub trait RateLimiter<T>: Send + 'static {
    /// Counts one failure of `key` and answers how long the key has to wait.
    fn delay(&mut self, key: &T, now: Instant) -> Duration;

    /// Forgets what is known of `key`; its next failure counts as the first.
    fn forget(&mut self, key: &T);

    /// How many failures of `key` are counted since it was last forgotten.
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
