//! Machine: pauses that are shortened or lengthened by up to a tenth.

use std::time::Duration;

use steersman_object::Jitter;

/// Returns a pause of nine to eleven tenths of `pause`, so that pauses that began together end apart.
pub(crate) fn jittered_pause(pause: Duration, jitter: &mut Jitter) -> Duration {
    let tenth = pause / 10;
    let shift = Duration::try_from_secs_f64(tenth.as_secs_f64() * 2.0 * jitter.fraction());
    (pause - tenth).saturating_add(shift.unwrap_or(tenth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_shortened_or_lengthened_by_at_most_a_tenth() {
        let (mut jitter, second) = (Jitter::new(1), Duration::from_secs(1));
        let pauses: Vec<Duration> = (0..100)
            .map(|_| jittered_pause(second, &mut jitter))
            .collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (second * 9 / 10..=second * 11 / 10).contains(pause))
        );
        assert!(pauses.iter().any(|pause| *pause < second));
        assert!(pauses.iter().any(|pause| *pause > second));
        assert!(jittered_pause(Duration::MAX, &mut jitter) >= Duration::MAX / 10 * 9);
        assert_eq!(jittered_pause(Duration::ZERO, &mut jitter), Duration::ZERO);
    }
}
