//! Machine: the delays after consecutive failures, and when they begin anew.

use std::time::{Duration, Instant};

use steersman_object::Jitter;

/// The first delay, as in client-go's reflector.
const FIRST: Duration = Duration::from_millis(800);
const CAP: Duration = Duration::from_secs(30);
/// The longest delay that a server's `Retry-After` can demand.
const ASKED: Duration = Duration::from_secs(300);
/// The time without a failure after which the next delay is the first delay again.
const RESET: Duration = Duration::from_secs(120);
/// How long the delays stay below [`SOON_CAP`] after the first failure of an outage: the server may return at any
/// moment.
const SOON: Duration = Duration::from_secs(60);
/// The longest delay at the beginning of an outage.
const SOON_CAP: Duration = Duration::from_secs(3);

/// The delays of one reflector (REFL-4): each delay is twice the previous one, up to a cap, and shortened by up to a
/// quarter, so that many reflectors do not repeat their requests together.
#[derive(Debug)]
pub(crate) struct ReflectorBackoff {
    failures: u32,
    /// The time of the first failure in a row.
    since: Option<Instant>,
    /// The end of the last delay.
    until: Option<Instant>,
    jitter: Jitter,
}

impl ReflectorBackoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            failures: 0,
            since: None,
            until: None,
            jitter: Jitter::new(seed),
        }
    }

    /// Records a failure. Returns the end of the delay. The delay is at least `asked`, the server's `Retry-After`, of
    /// which at most 5 minutes count.
    pub(crate) fn fail(&mut self, now: Instant, asked: Option<Duration>) -> Instant {
        self.delay(now, asked, CAP)
    }

    /// Records a failure in an outage as [`fail`](Self::fail) does. In its first minute the delays stay short.
    pub(crate) fn fail_briefly(&mut self, now: Instant, asked: Option<Duration>) -> Instant {
        let begun = self.since.is_none_or(|since| now < since + SOON);
        self.delay(now, asked, if begun { SOON_CAP } else { CAP })
    }

    /// Records that the cause of the failures is over: the next failure counts as the first.
    pub(crate) fn end(&mut self) {
        self.failures = 0;
        (self.since, self.until) = (None, None);
    }

    fn delay(&mut self, now: Instant, asked: Option<Duration>, cap: Duration) -> Instant {
        let healthy = self.until.is_some_and(|until| now >= until + RESET);
        if healthy {
            self.end();
        }
        self.since.get_or_insert(now);
        let base = FIRST.saturating_mul(1 << self.failures.min(10)).min(cap);
        self.failures = self.failures.saturating_add(1);
        let delay = base.mul_f64(1.0 - self.jitter.fraction() / 4.0);
        let until = now + delay.max(asked.unwrap_or_default().min(ASKED));
        self.until = Some(until);
        until
    }

    pub(crate) fn jitter(&mut self) -> &mut Jitter {
        &mut self.jitter
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the origin of the test's instants.
    #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    proptest! {
        // REFL-4
        #[test]
        fn delays_grow_to_the_cap(seed in any::<u64>()) {
            let mut backoff = ReflectorBackoff::new(seed);
            let mut now = origin();
            let mut last = Duration::ZERO;
            for attempt in 0..12 {
                let until = backoff.fail(now, None);
                let delay = until - now;
                prop_assert!(delay <= CAP);
                if attempt < 6 {
                    prop_assert!(delay > last, "{delay:?} after {last:?}");
                } else {
                    prop_assert!(delay >= CAP.mul_f64(0.75));
                }
                last = delay;
                now = until;
            }
        }
    }

    #[test]
    fn the_delay_is_reset_after_two_minutes_without_a_failure() {
        let mut backoff = ReflectorBackoff::new(1);
        let mut now = origin();
        for _ in 0..8 {
            now = backoff.fail(now, None);
        }
        let soon = now + Duration::from_secs(119);
        let until = backoff.fail(soon, None);
        assert!(until - soon > FIRST);
        let late = until + RESET;
        assert!(backoff.fail(late, None) - late <= FIRST);
    }

    #[test]
    fn delays_of_an_outage_stay_short_for_a_minute() {
        let start = origin();
        let mut backoff = ReflectorBackoff::new(1);
        let mut now = start;
        while now < start + SOON {
            let until = backoff.fail_briefly(now, None);
            assert!(until - now <= SOON_CAP);
            now = until;
        }
        assert!(backoff.fail_briefly(now, None) - now > SOON_CAP);
        backoff.end();
        assert!(backoff.fail_briefly(now, None) - now <= FIRST);
    }

    #[test]
    fn retry_after_prolongs_the_delay() {
        let now = origin();
        let until = ReflectorBackoff::new(1).fail(now, Some(Duration::from_secs(7)));
        assert_eq!(until - now, Duration::from_secs(7));
    }

    #[test]
    fn retry_after_is_bounded() {
        let now = origin();
        let until = ReflectorBackoff::new(1).fail(now, Some(Duration::MAX));
        assert_eq!(until - now, ASKED);
    }
}
