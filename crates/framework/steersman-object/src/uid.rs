//! Words: the uid of an object, which distinguishes it from other objects of the same name.

use std::fmt;

/// The uid of an object; empty before the object is created.
///
/// An opaque string to clients. Servers generate UUIDs, which are stored in 16 bytes.
#[derive(Clone, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("{self}")]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, Hash)]
enum UidForm {
    /// A UUID in the exact notation of RFC 9562. Other notations are stored as text, so that different texts never
    /// compare equal.
    Uuid([u8; 16]),
    Text(Box<str>),
}

const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// Creates a uid from the text that the server sent.
    pub fn new(text: &str) -> Self {
        Self(match uuid(text) {
            Some(bytes) => UidForm::Uuid(bytes),
            None => UidForm::Text(text.into()),
        })
    }

    /// Returns whether the uid is empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidForm::Text(text) if text.is_empty())
    }
}

/// Parses a UUID of 36 characters with lower-case digits.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut digits = 0;
    let mut bytes = [0; 16];
    for (at, character) in text.iter().enumerate() {
        if HYPHENS.contains(&at) {
            if *character != b'-' {
                return None;
            }
            continue;
        }
        let digit = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'f' => character - b'a' + 10,
            _ => return None,
        };
        // The index is in bounds, because 36 characters without 4 hyphens are 32 digits.
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Some(bytes)
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        match &self.0 {
            UidForm::Uuid(bytes) => uuid(other).as_ref() == Some(bytes),
            UidForm::Text(text) => **text == *other,
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            UidForm::Uuid(bytes) => bytes,
            UidForm::Text(text) => return f.write_str(text),
        };
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_displays_the_text_it_was_created_from() {
        let texts = [
            "",
            "1",
            "6f2c9d54-0000-4000-a000-0123456789ab",
            "6f2c9d54-0000-4000-a000-0123456789aB",
            "6f2c9d54-0000-4000-a000-0123456789ag",
            "6f2c9d540-000-4000-a000-0123456789ab",
            "6f2c9d54-0000-4000-a000-0123456789ab0",
            "ä92c9d54-0000-4000-a000-0123456789a",
        ];
        for one in texts {
            let uid = Uid::new(one);
            assert_eq!(uid.to_string(), one);
            assert_eq!(uid.is_empty(), one.is_empty());
            for other in texts {
                assert_eq!(uid == Uid::new(other), one == other, "{one:?} {other:?}");
                assert_eq!(uid == *other, one == other, "{one:?} {other:?}");
            }
        }
        assert_eq!(size_of::<Uid>(), 24);
    }
}
