//! Machine: a token bucket: how many new Events of one object may be sent.

use std::time::{Duration, Instant};

/// The most tokens that a bucket holds (`defaultSpamBurst` of client-go's `tools/record`).
pub(crate) const BURST: u32 = 25;

/// The time in which a bucket gains one token (`defaultSpamQPS` of client-go: one per 300 s).
pub(crate) const REFILL: Duration = Duration::from_secs(300);

/// The tokens of one object. A full bucket is like a new one.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    tokens: u32,
    /// The time up to which gained tokens are counted in `tokens`.
    counted: Instant,
}

impl TokenBucket {
    pub(crate) fn full(now: Instant) -> Self {
        Self {
            tokens: BURST,
            counted: now,
        }
    }

    /// Takes a token, and returns whether there was one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.gain(now);
        if self.tokens == 0 {
            return false;
        }
        self.tokens -= 1;
        true
    }

    /// Returns the time at which the bucket is full.
    pub(crate) fn full_at(&self) -> Instant {
        self.counted + REFILL * (BURST - self.tokens)
    }

    fn gain(&mut self, now: Instant) {
        if now >= self.full_at() {
            *self = Self::full(now);
            return;
        }
        // At most 25 rounds, because a full bucket has returned above.
        while now.saturating_duration_since(self.counted) >= REFILL {
            self.tokens += 1;
            self.counted += REFILL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVENT-5
    #[test]
    fn a_bucket_gives_25_tokens_at_once_and_one_more_every_five_minutes() {
        let start = tokio::time::Instant::now().into_std();
        let mut bucket = TokenBucket::full(start);
        let takes = |bucket: &mut TokenBucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(takes(&mut bucket, start), 25);
        let second = Duration::from_secs(1);
        assert_eq!(takes(&mut bucket, start + second * 299), 0);
        assert_eq!(takes(&mut bucket, start + second * 300), 1);
        // The time since the last whole token counts.
        assert_eq!(takes(&mut bucket, start + second * 899), 1);
        assert_eq!(takes(&mut bucket, start + second * 900), 1);
        assert_eq!(bucket.full_at(), start + second * (900 + 25 * 300));
        assert_eq!(takes(&mut bucket, start + second * 1_000_000), 25);
    }
}
