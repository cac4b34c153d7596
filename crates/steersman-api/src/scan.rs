//! Machine: finds where a JSON value ends, by its brackets and texts alone, however its bytes come.
//!
//! Whether what stands between them is JSON is seen by whoever reads the value. A backslash takes the
//! byte behind it along, wherever it stands: outside of texts there is none in JSON.

use wide::u8x16;

/// The most levels of one value: Go's `encoding/json` reads no more, so no server that is written
/// in it ever took an object that has them.
pub(crate) const MAX_DEPTH: usize = 10_000;

/// So many bytes are looked at together.
const BLOCK: usize = 64;
/// And so many of them with one instruction, on the processors that operators run on.
const LANES: usize = 16;

/// A value, and how far into it the bytes have come.
#[derive(Debug)]
pub(crate) struct Scan {
    position: Position,
}

/// A value has more levels than anybody reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

#[derive(Debug)]
enum Position {
    /// In a number or a word, which ends where something else begins.
    Bare,
    /// At or in a value that is a text. Most are short: a plain loop is best.
    Text { open: bool, escape: bool },
    /// At or in a value with brackets, which may be long: it is looked at a block at a time.
    Nested(Nested),
}

/// How far into its brackets and texts a value has come.
#[derive(Debug, Default)]
struct Nested {
    depth: usize,
    in_text: bool,
    /// Behind a backslash.
    escape: bool,
}

/// Where there is something of note among the bytes of a block, a bit for each, the first the lowest.
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

// ===== impl Scan =====

impl Scan {
    /// At the first byte of a value, which is looked at again as the first it [goes on](Self::go_on)
    /// through; `None` where no value begins so.
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

    /// Goes on through the bytes; how many of them are the value's, if it ends there.
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

// ===== impl Nested =====

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

    /// Passes a block, of which so many bytes count; how many of them are the value's, if it ends there.
    fn pass(&mut self, block: &[u8; BLOCK], length: usize) -> Result<Option<usize>, TooDeep> {
        let marks = Marks::of(block);
        let last = length - 1;
        let escaped = self.escaped(marks.backslashes, last);
        // From each quote that opens a text to the one before that which closes it.
        let texts = parity(marks.quotes & !escaped) ^ if self.in_text { u64::MAX } else { 0 };
        self.in_text = texts >> last & 1 == 1;
        let between = !(texts | escaped);
        let (opens, closes) = (marks.opens & between, marks.closes & between);
        let (opened, closed) = (opens.count_ones() as usize, closes.count_ones() as usize);
        // Hardly any block holds the end, or the deepest level there may be.
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
                // A value that is nested begins with a bracket, so there is one to close.
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

    /// Which bytes stand behind a backslash that escapes them.
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

// ===== impl Marks =====

impl Marks {
    fn of(block: &[u8; BLOCK]) -> Self {
        let (lanes, _) = block.as_chunks::<LANES>();
        let bytes = [0, 1, 2, 3].map(|at| u8x16::new(lanes[at]));
        // `[` and `{`, and `]` and `}`, are a bit apart.
        let curly = bytes.map(|bytes| bytes | u8x16::splat(0x20));
        Self {
            quotes: places(&bytes, b'"'),
            backslashes: places(&bytes, b'\\'),
            opens: places(&curly, b'{'),
            closes: places(&curly, b'}'),
        }
    }
}

/// A bit for each byte, set where it is this one.
///
/// Bringing the bits together takes one instruction, which a compiler does not find in a plain loop: a block
/// takes it twice as many.
fn places(bytes: &[u8x16; BLOCK / LANES], wanted: u8) -> u64 {
    let wanted = u8x16::splat(wanted);
    bytes.iter().rev().fold(0, |places, bytes| {
        places << LANES | u64::from(bytes.simd_eq(wanted).to_bitmask())
    })
}

/// Whether so many bits up to each one, itself included, are set that their number is odd.
fn parity(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}

/// What numbers and words are made of.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, a byte at a time.
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
    fn the_deepest_level_counts_wherever_in_a_block_it_is() {
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
    fn a_value_ends_where_its_brackets_and_texts_do() {
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
