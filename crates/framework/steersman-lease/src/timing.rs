//! Words: the three durations of an election.

use std::time::Duration;

/// The default lease duration, that of client-go and controller-runtime.
pub const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);
/// The default renew deadline.
pub const DEFAULT_RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The default retry period.
pub const DEFAULT_RETRY_PERIOD: Duration = Duration::from_secs(2);

/// The shortest time limit of a request (client-go: `max(1s, RenewDeadline/2)`).
const SHORTEST_REQUEST: Duration = Duration::from_secs(1);

/// The three durations of an election, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease is valid after a candidate last saw it change.
    pub lease_duration: Duration,
    /// How long a leader may work after it sent its last successful renewal.
    pub renew_deadline: Duration,
    /// The time between two renewals, and the shortest time between two attempts of a standby.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: DEFAULT_LEASE_DURATION,
            renew_deadline: DEFAULT_RENEW_DEADLINE,
            retry_period: DEFAULT_RETRY_PERIOD,
        }
    }
}

impl Timing {
    /// Returns the rule that the durations violate, if any (client-go, `NewLeaderElector`).
    pub fn problem(&self) -> Option<&'static str> {
        if self.lease_duration < Duration::from_secs(1) || self.lease_duration.subsec_nanos() != 0 {
            return Some("the lease duration must be a number of whole seconds, at least one");
        }
        if i32::try_from(self.lease_duration.as_secs()).is_err() {
            return Some("the lease duration must be at most 2147483647 seconds");
        }
        if self.retry_period.is_zero() {
            return Some("the retry period must be greater than zero");
        }
        if self.lease_duration <= self.renew_deadline {
            return Some("the lease duration must be longer than the renew deadline");
        }
        // The factor 1.2 is 6/5 in integers, because it has no exact binary fraction. The product may overflow.
        let jittered = self.retry_period.checked_mul(6);
        if jittered.is_none_or(|jittered| self.renew_deadline * 5 <= jittered) {
            return Some("the renew deadline must be longer than 1.2 times the retry period");
        }
        None
    }

    /// Returns the time limit of a request: half of the renew deadline, and at least a second.
    pub fn request_limit(&self) -> Duration {
        SHORTEST_REQUEST.max(self.renew_deadline / 2)
    }

    /// Returns how long work may take to stop after a loss: half of the time between the renew deadline and the expiry.
    pub fn stop_limit(&self) -> Duration {
        (self.lease_duration - self.renew_deadline) / 2
    }

    /// Returns the time until the next attempt of a standby: from 1 to 2.2 retry periods, for a fraction in `[0, 1)`
    /// (client-go, `acquire`, `JitterFactor` 1.2).
    pub(crate) fn standby_pause(&self, fraction: f64) -> Duration {
        self.retry_period.mul_f64(1.0 + 1.2 * fraction)
    }

    /// Returns the time until a standby's next attempt after a failed request: 0.5 to 1 retry periods, for a fraction
    /// in `[0, 1)` (LEASE-9).
    pub fn failure_pause(&self, fraction: f64) -> Duration {
        self.retry_period.mul_f64(0.5 + 0.5 * fraction)
    }

    /// Returns how long the creator of a Lease waits before it works (LEASE-3).
    pub fn creation_hold(&self) -> Duration {
        self.retry_period * 2
    }

    /// Returns the lease duration in whole seconds, as the Lease holds it.
    pub fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(lease: u64, renew: u64, retry: u64) -> Timing {
        Timing {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
        }
    }

    #[test]
    fn pauses_of_standbys_last_one_to_two_and_a_fifth_periods() {
        let timing = timing(15_000, 10_000, 2_000);
        assert_eq!(timing.standby_pause(0.0), Duration::from_millis(2_000));
        assert_eq!(timing.standby_pause(0.5), Duration::from_millis(3_200));
        assert_eq!(timing.standby_pause(1.0), Duration::from_millis(4_400));
    }

    #[test]
    fn the_durations_are_validated_as_in_client_go() {
        for (lease, renew, retry, valid) in [
            (15_000, 10_000, 2_000, true),
            (3_000, 2_000, 500, true),
            (10_000, 10_000, 2_000, false),
            (15_000, 2_400, 2_000, false),
            (15_000, 2_401, 2_000, true),
            (15_500, 10_000, 2_000, false),
            (1_000, 500, 100, true),
            (500, 400, 100, false),
            (15_000, 10_000, 0, false),
            (3_000_000_000_000, 10_000, 2_000, false),
        ] {
            let timing = timing(lease, renew, retry);
            assert_eq!(timing.problem().is_none(), valid, "{timing:?}");
        }
        let endless = Timing {
            retry_period: Duration::MAX,
            ..Timing::default()
        };
        assert!(endless.problem().is_some());
        let endless = Timing {
            lease_duration: Duration::MAX,
            ..Timing::default()
        };
        assert!(endless.problem().is_some());
    }

    #[test]
    fn a_request_takes_at_most_half_of_the_renew_deadline_or_a_second() {
        assert_eq!(Timing::default().request_limit(), Duration::from_secs(5));
        let short = timing(3_000, 1_500, 500);
        assert_eq!(short.request_limit(), Duration::from_secs(1));
    }
}
