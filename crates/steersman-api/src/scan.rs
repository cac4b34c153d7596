//! Machine: finds where a JSON value ends, by its brackets and texts alone, however its bytes come.
//!
//! Whether what stands between them is JSON is seen by whoever reads the value.

/// The most levels of one value: Go's `encoding/json` reads no more, so no server that is written
/// in it ever took an object that has them.
pub(crate) const MAX_DEPTH: usize = 10_000;

/// A value, and how far into it the bytes have come.
#[derive(Debug)]
pub(crate) struct Scan {
    place: Place,
    depth: usize,
}

/// A value has more levels than anybody reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a number or a word, which ends where something else begins.
    Bare,
    /// In a text.
    Text,
    /// In a text, behind a backslash.
    Escape,
    /// Between texts.
    Nested,
}

impl Scan {
    /// At the first byte of a value, which is looked at again as the first it [goes on](Self::go_on)
    /// through; `None` where no value begins so.
    pub(crate) fn begin(byte: u8) -> Option<Self> {
        let place = match byte {
            b'"' | b'{' | b'[' => Place::Nested,
            byte if is_bare(byte) => Place::Bare,
            _ => return None,
        };
        Some(Self { place, depth: 0 })
    }

    /// Goes on through the bytes; how many of them are the value's, if it ends there.
    pub(crate) fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, TooDeep> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.place {
                Place::Bare => {
                    let end = rest.iter().position(|byte| !is_bare(*byte));
                    return Ok(end.map(|end| at + end));
                }
                Place::Escape => {
                    at += 1;
                    self.place = Place::Text;
                }
                Place::Text => {
                    // Most texts are short: a plain loop beats a search that is set up for each.
                    let Some(stop) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))
                    else {
                        return Ok(None);
                    };
                    at += stop + 1;
                    self.place = match rest[stop] {
                        b'\\' => Place::Escape,
                        _ => Place::Nested,
                    };
                }
                Place::Nested => {
                    let Some(stop) = rest.iter().position(|byte| is_mark(*byte)) else {
                        return Ok(None);
                    };
                    at += stop + 1;
                    match rest[stop] {
                        b'"' => {
                            self.place = Place::Text;
                            continue;
                        }
                        b'{' | b'[' => self.depth += 1,
                        // A value that is nested begins with a bracket, so there is one to close.
                        _ => self.depth -= 1,
                    }
                    if self.depth > MAX_DEPTH {
                        return Err(TooDeep);
                    }
                }
            }
            if self.depth == 0 && matches!(self.place, Place::Nested) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// What numbers and words are made of.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// What matters between texts.
fn is_mark(byte: u8) -> bool {
    matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')
}

#[cfg(test)]
mod tests {
    use super::*;

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
