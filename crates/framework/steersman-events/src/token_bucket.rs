//! Machine: a token bucket, which limits the new Events of one object.

use std::time::Instant;

use crate::event_limits::EventLimits;

/// The tokens of one object. A full bucket is the same as a new one, and so need not be kept.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    tokens: u32,
    /// The instant up to which regained tokens are included in `tokens`.
    counted: Instant,
}

impl TokenBucket {
    pub(crate) fn full(now: Instant, limits: &EventLimits) -> Self {
        Self {
            tokens: limits.burst,
            counted: now,
        }
    }

    pub(crate) fn take(&mut self, now: Instant, limits: &EventLimits) -> bool {
        self.gain(now, limits);
        if self.tokens == 0 {
            return false;
        }
        self.tokens -= 1;
        true
    }

    pub(crate) fn full_at(&self, limits: &EventLimits) -> Instant {
        self.counted + limits.refill * limits.burst.saturating_sub(self.tokens)
    }

    fn gain(&mut self, now: Instant, limits: &EventLimits) {
        if now >= self.full_at(limits) {
            *self = Self::full(now, limits);
            return;
        }
        // The loop has at most one round per token, because a full bucket has returned above.
        while now.saturating_duration_since(self.counted) >= limits.refill {
            self.tokens += 1;
            self.counted += limits.refill;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// EVENT-5: the number of Events about one object is limited.
    #[test]
    fn a_bucket_gives_25_tokens_at_once_and_one_more_every_five_minutes() {
        let start = tokio::time::Instant::now().into_std();
        let limits = EventLimits::new();
        let mut bucket = TokenBucket::full(start, &limits);
        let takes = |bucket: &mut TokenBucket, now| {
            let taken = (0..100).filter(|_| bucket.take(now, &limits));
            taken.count()
        };
        assert_eq!(takes(&mut bucket, start), 25);
        let second = Duration::from_secs(1);
        assert_eq!(takes(&mut bucket, start + second * 299), 0);
        assert_eq!(takes(&mut bucket, start + second * 300), 1);
        // The time since the last regained token still counts.
        assert_eq!(takes(&mut bucket, start + second * 899), 1);
        assert_eq!(takes(&mut bucket, start + second * 900), 1);
        assert_eq!(bucket.full_at(&limits), start + second * (900 + 25 * 300));
        assert_eq!(takes(&mut bucket, start + second * 1_000_000), 25);
    }
}
