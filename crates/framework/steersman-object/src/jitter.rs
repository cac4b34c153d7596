//! Machine: pseudo-random fractions, for pauses that must not coincide.

use std::time::Duration;

/// A generator of pseudo-random fractions. Equal seeds give equal fractions.
#[derive(Debug)]
pub struct Jitter(fastrand::Rng);

impl Jitter {
    /// Makes the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns the next fraction in `[0, 1)`.
    pub fn fraction(&mut self) -> f64 {
        self.0.f64()
    }

    /// Returns a random duration from 0.9 to 1.1 times `pause`, so that pauses with the same start end apart.
    pub fn about(&mut self, pause: Duration) -> Duration {
        let tenth = pause / 10;
        let shift = Duration::try_from_secs_f64(tenth.as_secs_f64() * 2.0 * self.fraction());
        (pause - tenth).saturating_add(shift.unwrap_or(tenth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_shortened_or_lengthened_by_at_most_a_tenth() {
        let (mut jitter, second) = (Jitter::new(1), Duration::from_secs(1));
        let pauses: Vec<Duration> = (0..100).map(|_| jitter.about(second)).collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (second * 9 / 10..=second * 11 / 10).contains(pause))
        );
        assert!(pauses.iter().any(|pause| *pause < second));
        assert!(pauses.iter().any(|pause| *pause > second));
        assert!(jitter.about(Duration::MAX) >= Duration::MAX / 10 * 9);
        assert_eq!(jitter.about(Duration::ZERO), Duration::ZERO);
    }
}
