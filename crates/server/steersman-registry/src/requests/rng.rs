//! Machine: generates pseudo-random uids and names. The same seed gives the same uids and names.

use std::hash::BuildHasher as _;

use foldhash::quality::FixedState;
use uuid::Builder;

/// A pseudo-random generator of uids and names. Snapshots have its state, so that a restarted server continues it.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

/// The characters of generated names. There are no vowels, so that no words appear in names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Rng {
    /// Returns a generator with this seed; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns the state of the generator: a new generator with this state as its seed continues the sequence.
    pub fn state(&self) -> u64 {
        self.0.get_seed()
    }

    /// Returns the next pseudo-random number, of the full range of `u64`.
    pub fn draw(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a new generator, with the next number of this generator as its seed. Their sequences differ.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Returns a generator with the hash of a text as its seed: equal texts give equal sequences.
    pub fn of_text(text: &str) -> Self {
        Self::new(FixedState::default().hash_one(text))
    }

    /// Returns a pseudo-random number from 0 up to, but not including, 1.
    pub fn share(&mut self) -> f64 {
        self.0.f64()
    }

    /// Returns a random UUID (version 4), for `metadata.uid`.
    pub fn uid(&mut self) -> String {
        let bytes = self.0.u128(..).to_be_bytes();
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Returns five random characters, the end of a name that is generated from `generateName`.
    pub fn suffix(&mut self) -> String {
        let mut letter = || char::from(LETTERS[self.0.usize(..LETTERS.len())]);
        (0..5).map(|_| letter()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        let uid = a.uid();
        assert_eq!(uid, b.uid());
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert_ne!(a.uid(), uid);
        assert_eq!(a.suffix().len(), 5);
    }
}
