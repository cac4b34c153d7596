//! Machine: the delays of another limiter, shortened to a maximum.

use std::time::{Duration, Instant};

use crate::limiter::RateLimiter;

/// Shortens the delays of another limiter to a maximum; client-go's `WithMaxWaitRateLimiter`.
///
/// ```
/// use std::time::Duration;
///
/// use steersman_workqueue::QueueOptions;
/// use steersman_workqueue::limiter::{Bucket, MaxWait};
///
/// // No key waits longer than a minute for a token.
/// let bucket = Bucket::new(Duration::from_millis(100), 100);
/// let limiter = MaxWait::new(bucket, Duration::from_secs(60));
/// let options = QueueOptions::<String>::new("websites").rate_limiter(limiter);
/// ```
#[derive(derive_more::Debug)]
#[debug("MaxWait {{ longest: {longest:?}, .. }}")]
pub struct MaxWait<T> {
    limiter: Box<dyn RateLimiter<T>>,
    longest: Duration,
}

impl<T: 'static> MaxWait<T> {
    /// Makes a limiter with the delays of `limiter`, each at most `longest`.
    #[must_use]
    pub fn new(limiter: impl RateLimiter<T>, longest: Duration) -> Self {
        Self {
            limiter: Box::new(limiter),
            longest,
        }
    }
}

impl<T: 'static> RateLimiter<T> for MaxWait<T> {
    fn delay(&mut self, key: &T, now: Instant) -> Duration {
        self.limiter.delay(key, now).min(self.longest)
    }

    fn forget(&mut self, key: &T) {
        self.limiter.forget(key);
    }

    fn failures(&self, key: &T) -> u32 {
        self.limiter.failures(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::Exponential;

    #[test]
    fn no_delay_is_longer_and_failures_are_those_of_the_other_limiter() {
        let now = tokio::time::Instant::now().into_std();
        let mut limiter = MaxWait::new(Exponential::<u8>::default(), Duration::from_millis(18));
        let delays: Vec<u128> = (0..4).map(|_| limiter.delay(&1, now).as_millis()).collect();
        assert_eq!(delays, [5, 10, 18, 18]);
        assert_eq!(limiter.failures(&1), 4);
        limiter.forget(&1);
        assert_eq!(limiter.failures(&1), 0);
    }
}
