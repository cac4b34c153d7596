//! Machine: random numbers that are the same in every run.

/// Random numbers that follow from a seed.
///
/// A plan drawn with them is the same for the same seed, in every run and on every machine.
#[derive(Debug)]
pub struct SeededRng(fastrand::Rng);

impl SeededRng {
    /// Creates the generator of a seed. Tests that must not draw the same plans mix a constant of their own into the
    /// seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Draws a number from 0 to `end`, `end` excluded.
    ///
    /// # Panics
    /// If `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// Draws a position in a list of this length.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.0.usize(..len)
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Draws one of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    /// Creates a value with a probability of `percent` in a hundred.
    pub fn maybe<T>(&mut self, percent: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(percent).then(|| make(self))
    }
}

#[cfg(test)]
mod tests {
    use super::SeededRng;

    #[test]
    fn the_same_seed_draws_the_same_numbers_and_its_neighbour_others() {
        let drawn = |seed| {
            let mut rng = SeededRng::new(seed);
            [(); 8].map(|()| rng.below(1000))
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn a_chance_of_100_always_holds_and_of_0_never() {
        let mut rng = SeededRng::new(1);
        for _ in 0..1000 {
            assert!(rng.chance(100) && !rng.chance(0));
            assert!(rng.index(3) < 3);
            assert_eq!(rng.maybe(100, |rng| rng.pick(&["one"])), Some("one"));
        }
    }
}
