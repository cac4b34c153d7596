//! Machine: a limit of the retries of each key.

use std::time::{Duration, Instant};

use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::limiter::windows::Windows;

/// A limit of the retries of each key; see [`at_most`].
#[derive(Debug)]
pub struct AtMost<T> {
    windows: Windows<T>,
}

/// Makes a limiter that retries each key at most `retries` times in any span of `per`, without a delay until the limit
/// is reached. Zero retries count as 1.
///
/// Only retries are limited: [`QueueOptions::at_most`](crate::QueueOptions::at_most) limits all runs of a key. The
/// limiter counts no failures; combine it with [`Exponential`](super::Exponential) by [`MaxOf`](super::MaxOf).
///
/// ```
/// use std::time::Duration;
///
/// use steersman_workqueue::QueueOptions;
/// use steersman_workqueue::limiter::{Exponential, MaxOf, at_most};
///
/// let limiter = MaxOf::new()
///     .and(Exponential::default())
///     .and(at_most(2, Duration::from_secs(3)));
/// let options = QueueOptions::<String>::new("websites").rate_limiter(limiter);
/// ```
#[must_use]
pub fn at_most<T: Key>(retries: u32, per: Duration) -> AtMost<T> {
    AtMost {
        windows: Windows::new(retries, per),
    }
}

impl<T: Key> RateLimiter<T> for AtMost<T> {
    fn delay(&mut self, key: &T, now: Instant) -> Duration {
        let free = self.windows.next_free(key, now).unwrap_or(now);
        self.windows.begin(key, free);
        free.saturating_duration_since(now)
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
    fn each_key_has_a_limit_of_its_own_which_success_does_not_reset() {
        let now = tokio::time::Instant::now().into_std();
        let mut limiter = at_most(2, Duration::from_millis(3000));
        let mut delays = |key: u8, at: u64, n: usize| -> Vec<u128> {
            let at = now + Duration::from_millis(at);
            (0..n)
                .map(|_| limiter.delay(&key, at).as_millis())
                .collect()
        };
        assert_eq!(delays(1, 0, 5), [0, 0, 3000, 3000, 6000]);
        assert_eq!(delays(2, 0, 2), [0, 0]);
        assert_eq!(delays(1, 20_000, 3), [0, 0, 3000]);
        limiter.forget(&2);
        let delay = limiter.delay(&2, now);
        assert_eq!(delay, Duration::from_secs(3));
    }
}
