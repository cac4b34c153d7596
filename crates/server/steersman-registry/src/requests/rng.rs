//! Machine: generates uids and names; the same seed generates the same ones.

/// The splitmix64 generator: small, seedable, and independent of the versions of dependencies.
#[derive(Debug, Clone)]
pub struct Rng(u64);

/// The alphabet of generated names: no vowels, no look-alikes.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Rng {
    /// Returns the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the state from which another generator continues this one.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// Returns the next number of the sequence (SplitMix64).
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a generator with other numbers than this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }

    /// Returns a generator seeded with a text.
    pub fn of_text(text: &str) -> Self {
        // As FNV-1a, but of eight bytes at a time; the generator compensates for its weak mixing.
        let mix = |hash: u64, number: u64| {
            (hash ^ number)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(29)
        };
        let (words, rest) = text.as_bytes().as_chunks();
        let words = words.iter().copied().map(u64::from_le_bytes);
        let rest = rest.iter().copied().map(u64::from);
        Self(words.chain(rest).fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub fn share(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "52 bits of it fit exactly")]
        let number = (self.draw() >> 12) as f64;
        number / 4_503_599_627_370_496.0
    }

    /// Returns a version 4 UUID.
    pub fn uid(&mut self) -> String {
        let (high, low) = (self.draw(), self.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            8 + ((low >> 60) & 3),
            (low >> 48) & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }

    /// Returns the five characters that complete a `generateName`.
    pub fn suffix(&mut self) -> String {
        let mut bits = self.draw();
        let mut out = String::with_capacity(5);
        for _ in 0..5 {
            let at = usize::try_from(bits % 27).unwrap_or_default();
            out.push(char::from(LETTERS[at]));
            bits /= 27;
        }
        out
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
