//! Machine: random numbers that are the same in each run.

use serde_json::Value;

/// A small random generator: the same seed gives the same numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// Returns a number below `bound` (splitmix64).
    pub(super) fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(super) fn hex(&mut self, digits: usize) -> String {
        (0..digits)
            .map(|_| char::from_digit(u32::try_from(self.roll(16)).unwrap_or(0), 16).unwrap_or('0'))
            .collect()
    }

    /// Returns one of several words.
    pub(super) fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = self.roll(words.len() as u64);
        usize::try_from(at)
            .ok()
            .and_then(|at| words.get(at).copied())
            .unwrap_or_default()
    }

    /// Returns random base64 characters, which compress to six bits each at best.
    pub(super) fn noise(&mut self, characters: usize) -> Value {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        // Complete groups of four need no padding.
        let characters = characters.next_multiple_of(4);
        let mut text = String::with_capacity(characters);
        for _ in 0..characters {
            let at = usize::try_from(self.roll(64)).unwrap_or(0);
            text.push(char::from(ALPHABET[at]));
        }
        Value::String(text)
    }
}
