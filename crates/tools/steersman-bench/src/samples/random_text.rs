//! Machine: random texts that are the same in each run.

use fastrand::Rng;
use serde_json::Value;

pub(super) fn hex(rng: &mut Rng, digits: usize) -> String {
    (0..digits).map(|_| rng.digit(16)).collect()
}

pub(super) fn pick<'a>(rng: &mut Rng, words: &[&'a str]) -> &'a str {
    rng.choice(words).copied().unwrap_or_default()
}

/// Returns random base64 characters, which compress to six bits each at best.
pub(super) fn noise(rng: &mut Rng, characters: usize) -> Value {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // Complete groups of four need no padding.
    let characters = characters.next_multiple_of(4);
    let text: String = (0..characters)
        .map(|_| char::from(ALPHABET[rng.usize(..64)]))
        .collect();
    Value::String(text)
}
