//! Machine: the random part of the pauses between two attempts of a standby.

use std::time::Duration;

/// A small seeded random number generator (SplitMix64).
#[derive(Debug)]
pub(crate) struct Jitter {
    state: u64,
}

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the time until the next attempt of a standby: from 1 to 2.2 retry periods (client-go, `acquire`,
    /// `JitterFactor` 1.2).
    pub(crate) fn pause(&mut self, retry_period: Duration) -> Duration {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 16 random bits are enough, and convert exactly.
        let random = u32::try_from((mixed ^ (mixed >> 31)) >> 48).unwrap_or_default();
        let fraction = f64::from(random) / 65536.0;
        retry_period.mul_f64(1.0 + 1.2 * fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_from_one_to_two_and_a_fifth_periods() {
        let period = Duration::from_secs(2);
        let mut jitter = Jitter::new(7);
        let mut pauses: Vec<Duration> = (0..1000).map(|_| jitter.pause(period)).collect();
        pauses.sort();
        assert!(pauses[0] >= period && pauses[0] < period.mul_f64(1.05));
        assert!(pauses[999] < period.mul_f64(2.2) && pauses[999] > period.mul_f64(2.15));
    }
}
