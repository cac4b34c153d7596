//! Machine: random numbers that are the same in every run.

/// Random numbers that follow from a seed (SplitMix64).
///
/// A plan drawn with them is the same for the same seed, in every run and on every machine.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates the generator of a seed. Tests that must not draw the same plans mix a constant of
    /// their own into the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The first draw is dropped, so that the plans of neighbouring seeds have nothing in common.
        let mut dice = Self(seed);
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number from 0 to `end`, `end` excluded.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Draws a position in a list of this length.
    ///
    /// # Panics
    ///
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        // A number below a `usize` fits into a `usize`.
        self.below(len as u64) as usize
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Draws one of these.
    ///
    /// # Panics
    ///
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
    use super::Dice;

    #[test]
    fn the_same_seed_draws_the_same_numbers_and_its_neighbour_others() {
        let drawn = |seed| {
            let mut dice = Dice::new(seed);
            [(); 8].map(|()| dice.below(1000))
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn a_chance_of_100_always_holds_and_of_0_never() {
        let mut dice = Dice::new(1);
        for _ in 0..1000 {
            assert!(dice.chance(100) && !dice.chance(0));
            assert!(dice.index(3) < 3);
            assert_eq!(dice.maybe(100, |dice| dice.pick(&["one"])), Some("one"));
        }
    }
}
