//! Words: rate limiters, which decide how long a failed key waits before its next run.

mod failures;
pub(crate) mod windows;
mod exponential;
mod fast_slow;
mod bucket;
mod at_most;
mod max_of;
mod max_wait;

use std::time::{Duration, Instant};

pub use at_most::{AtMost, at_most};
pub use bucket::Bucket;
pub use exponential::Exponential;
pub use fast_slow::FastSlow;
pub use max_of::MaxOf;
pub use max_wait::MaxWait;

/// The longest delay. A longer delay is shortened to this one, so that no deadline overflows the clock.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Decides the delay of a key that failed, or that is added with [`rate_limited`](crate::AddOptions::rate_limited).
///
/// The queue calls a limiter under its lock, with the time. A limiter must not wait, and reads no clock.
pub trait RateLimiter<T>: Send + 'static {
    /// Counts one failure of `key`, and returns the delay until its next run.
    fn delay(&mut self, key: &T, now: Instant) -> Duration;

    /// Forgets the failures of `key`; its next failure counts as the first.
    fn forget(&mut self, key: &T);

    /// Returns the number of failures of `key` since the last [`forget`](Self::forget).
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
