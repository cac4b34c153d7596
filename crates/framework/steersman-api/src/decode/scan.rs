//! Machine: finds the end of a JSON value by its brackets and strings alone, whatever the boundaries of its chunks.
//!
//! Invalid JSON inside of the value shows when the value is decoded. A backslash escapes the following byte everywhere,
//! because outside of strings JSON has no backslash.

#[cfg(target_arch = "x86_64")]
use safe_arch::{cmp_eq_mask_i8_m128i, m128i, move_mask_i8_m128i, set_splat_i8_m128i};

/// The largest number of levels of one value, as in Go's `encoding/json`: no server written in Go accepts an object
/// with more levels.
pub(crate) const MAX_DEPTH: usize = 10_000;

const BLOCK: usize = 64;

#[derive(Debug)]
pub(crate) struct Scan {
    position: Position,
}

/// The error of a value with too many levels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

#[derive(Debug)]
enum Position {
    /// In a number or a literal, which ends before the first byte that cannot be part of it.
    Bare,
    /// At or in a string. Most strings are short, so a plain loop is fastest.
    Text { open: bool, escape: bool },
    /// At or in an object or array, which may be long, so it is scanned in blocks.
    Nested(Nested),
}

/// The state of a scan through an object or array.
#[derive(Debug, Default)]
struct Nested {
    depth: usize,
    in_text: bool,
    /// Whether the last byte was a backslash that escapes the next byte.
    escape: bool,
}

/// The positions of special bytes in a block: one bit per byte, the first byte in the lowest bit.
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Scan {
    /// Starts at the first byte of a value; `None` if no value begins with this byte. Pass the byte again to
    /// [`go_on`](Self::go_on).
    pub(crate) fn begin(byte: u8) -> Option<Self> {
        let position = match byte {
            b'"' => Position::Text {
                open: false,
                escape: false,
            },
            b'{' | b'[' => Position::Nested(Nested::default()),
            byte if is_bare(byte) => Position::Bare,
            _ => return None,
        };
        Some(Self { position })
    }

    /// Scans the next bytes. Returns the number of bytes up to the end of the value; `None` if the value goes on.
    pub(crate) fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, TooDeep> {
        match &mut self.position {
            Position::Bare => Ok(bytes.iter().position(|byte| !is_bare(*byte))),
            Position::Text { open, escape } => {
                for (at, byte) in bytes.iter().enumerate() {
                    match byte {
                        _ if std::mem::take(escape) => {}
                        b'\\' => *escape = true,
                        b'"' if std::mem::replace(open, true) => return Ok(Some(at + 1)),
                        _ => {}
                    }
                }
                Ok(None)
            }
            Position::Nested(nested) => nested.go_on(bytes),
        }
    }
}

impl Nested {
    fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, TooDeep> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            if let Some(end) = self.pass(block, BLOCK)? {
                return Ok(Some(number * BLOCK + end));
            }
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let end = self.pass(&last, rest.len())?;
        Ok(end.map(|end| blocks.len() * BLOCK + end))
    }

    /// Scans a block of `length` valid bytes. Returns the number of bytes up to the end of the value; `None` if the
    /// value goes on.
    fn pass(&mut self, block: &[u8; BLOCK], length: usize) -> Result<Option<usize>, TooDeep> {
        let marks = Marks::of(block);
        let last = length - 1;
        let escaped = self.escaped(marks.backslashes, last);
        // Sets the bits between each opening quote and its closing quote.
        let texts = parity(marks.quotes & !escaped) ^ if self.in_text { u64::MAX } else { 0 };
        self.in_text = texts >> last & 1 == 1;
        let between = !(texts | escaped);
        let (opens, closes) = (marks.opens & between, marks.closes & between);
        let (opened, closed) = (opens.count_ones() as usize, closes.count_ones() as usize);
        // Most blocks contain neither the end of the value nor its deepest level, so a count of the brackets is enough.
        if self.depth > closed && self.depth + opened <= MAX_DEPTH {
            self.depth = self.depth + opened - closed;
            return Ok(None);
        }
        let mut brackets = opens | closes;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            if opens >> at & 1 == 1 {
                self.depth += 1;
            } else {
                // The value begins with a bracket, so the depth is at least one.
                self.depth -= 1;
            }
            if self.depth > MAX_DEPTH {
                return Err(TooDeep);
            }
            if self.depth == 0 {
                return Ok(Some(at as usize + 1));
            }
            brackets &= brackets - 1;
        }
        Ok(None)
    }

    fn escaped(&mut self, backslashes: u64, last: usize) -> u64 {
        let mut escaped = u64::from(self.escape);
        let mut left = backslashes & !escaped;
        let mut escapes = 0;
        while left != 0 {
            let first = left & left.wrapping_neg();
            escapes |= first;
            escaped |= first << 1;
            left &= !(first | first << 1);
        }
        self.escape = escapes >> last & 1 == 1;
        escaped
    }
}

impl Marks {
    fn of(block: &[u8; BLOCK]) -> Self {
        // `[` and `{` differ in one bit, and so do `]` and `}`.
        Self {
            quotes: places(block, 0, b'"'),
            backslashes: places(block, 0, b'\\'),
            opens: places(block, 0x20, b'{'),
            closes: places(block, 0x20, b'}'),
        }
    }
}

/// Returns one bit per byte, set if the byte with the bits of `added` is `wanted`.
///
/// One instruction collects the bits of sixteen bytes. The compiler does not find it for a loop over the bytes, which
/// takes twice as long per block.
#[cfg(target_arch = "x86_64")]
fn places(block: &[u8; BLOCK], added: u8, wanted: u8) -> u64 {
    let splat = |byte: u8| set_splat_i8_m128i(byte.cast_signed());
    let (added, wanted) = (splat(added), splat(wanted));
    let (lanes, _) = block.as_chunks::<16>();
    lanes.iter().rev().fold(0, |places, lane| {
        let equal = cmp_eq_mask_i8_m128i(m128i::from(*lane) | added, wanted);
        places << 16 | u64::from(move_mask_i8_m128i(equal).cast_unsigned())
    })
}

#[cfg(not(target_arch = "x86_64"))]
use plain_places as places;

/// Does the same as [`places`] on any processor, for eight bytes at once.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_places(block: &[u8; BLOCK], added: u8, wanted: u8) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let splat = |byte: u8| u64::from_ne_bytes([byte; 8]);
    let (words, _) = block.as_chunks::<8>();
    words.iter().rev().fold(0, |places, word| {
        let differing = (u64::from_le_bytes(*word) | splat(added)) ^ splat(wanted);
        // The highest bit of each byte that is zero.
        let equal = !(((differing & LOW) + LOW) | differing | LOW);
        // The product collects the eight bits in its highest byte.
        places << 8 | (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// Sets each bit for which the number of set bits up to and including that bit is odd.
fn parity(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Scans one byte at a time, for comparison.
    fn plain(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_text, mut escape) = (0, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                _ if std::mem::take(&mut escape) => continue,
                b'\\' => escape = true,
                b'"' => in_text = !in_text,
                b'{' | b'[' if !in_text => depth += 1,
                b'}' | b']' if !in_text => depth -= 1,
                _ => {}
            }
            if depth == 0 && !in_text {
                return Some(at + 1);
            }
        }
        None
    }

    proptest! {
        #[test]
        fn every_processor_finds_the_same_bytes(
            block in prop::collection::vec(any::<u8>(), BLOCK),
            added in prop_oneof![Just(0_u8), Just(0x20)],
            at in 0..64_usize,
        ) {
            let block: [u8; BLOCK] = block.try_into().unwrap();
            let wanted = block[at] | added;
            let equal = |at: usize| u64::from(block[at] | added == wanted) << at;
            let expected: u64 = (0..BLOCK).map(equal).sum();
            prop_assert_eq!(places(&block, added, wanted), expected);
            prop_assert_eq!(plain_places(&block, added, wanted), expected);
        }

        // LIST-1
        #[test]
        fn list_1_a_value_ends_where_it_does_byte_by_byte_however_it_comes(
            first in "[{\"\\[]",
            rest in r#"([{}\[\]"\\]|[a-z :,]{1,9}){0,80}"#,
            mut cuts in prop::collection::vec(0..300_usize, 0..6),
        ) {
            let text = first + &rest;
            let bytes = text.as_bytes();
            let mut scan = Scan::begin(bytes[0]).unwrap();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let (mut from, mut end) = (0, None);
            for to in cuts {
                let to = to.min(bytes.len());
                if end.is_none() && from < to {
                    end = scan.go_on(&bytes[from..to]).unwrap().map(|end| from + end);
                    from = to;
                }
            }
            prop_assert_eq!(end, plain(bytes));
        }
    }

    #[test]
    fn the_depth_limit_holds_at_any_position_in_a_block() {
        for before in 0..130 {
            let text = "[".repeat(MAX_DEPTH + 1);
            let scan = |text: &str| Scan::begin(b'[').unwrap().go_on(text.as_bytes());
            assert_eq!(
                scan(&format!("[{}{text}", " ".repeat(before))),
                Err(TooDeep)
            );
            let deep = format!("[{}{}", " ".repeat(before), &text[2..]);
            assert_eq!(scan(&deep), Ok(None));
            let whole = format!("{deep}{} ", "]".repeat(MAX_DEPTH));
            assert_eq!(scan(&whole), Ok(Some(whole.len() - 1)));
        }
    }

    #[test]
    fn a_value_ends_with_its_brackets_and_strings() {
        for (text, length) in [
            (r#""a\"\\" "#, 7),
            ("-1.5e+3,", 7),
            ("null]", 4),
            (r#"{"a":["}",{}]}}"#, 14),
            ("[[]]", 4),
        ] {
            let mut scan = Scan::begin(text.as_bytes()[0]).unwrap();
            assert_eq!(scan.go_on(text.as_bytes()), Ok(Some(length)), "{text}");
        }
        for text in ["12", "\"a\\", "\"a\\\"", "[{}", ""] {
            let mut scan = Scan::begin(text.bytes().next().unwrap_or(b'{')).unwrap();
            assert_eq!(scan.go_on(text.as_bytes()), Ok(None), "{text}");
        }
        for byte in [b'}', b']', b',', b':', b' ', b'\\', 0xff] {
            assert!(Scan::begin(byte).is_none());
        }
    }
}
