//! Machine: decodes base64 as Go does, which skips line breaks and ignores the bits after the last byte.

use ::base64::Engine as _;
use ::base64::alphabet::STANDARD;
use ::base64::engine::{GeneralPurpose, GeneralPurposeConfig};

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes padded base64 of the standard alphabet.
///
/// # Errors
/// Returns the position that Go's `CorruptInputError` names, in bytes of the text.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let unbroken = text.replace(['\r', '\n'], "");
    let decoded = ENGINE.decode(unbroken);
    decoded.map_err(|_| corrupt_at(text.as_bytes()))
}

fn corrupt_at(text: &[u8]) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let other = |byte: &u8| !is_digit(*byte) && !is_break(*byte);
    let end = text.iter().position(other).unwrap_or(text.len());
    let digits = text[..end].iter().filter(|byte| is_digit(**byte)).count() % 4;
    if end < text.len() {
        return corrupt_padding_at(text, end, digits);
    }
    // The position that Go computes is that of the group, if no line break is inside.
    end - digits
}

/// Returns the corrupt position of a text that has a byte that is no digit at `at`, after `digits` digits of a group.
fn corrupt_padding_at(text: &[u8], at: usize, digits: usize) -> usize {
    if text[at] != b'=' || digits < 2 {
        return at;
    }
    let skip = |from: usize| {
        let rest = text[from..].iter();
        from + rest.take_while(|byte| is_break(**byte)).count()
    };
    let mut end = at + 1;
    if digits == 2 {
        let second = skip(end);
        match text.get(second) {
            None => return text.len(),
            Some(b'=') => end = second + 1,
            Some(_) => return second - 1,
        }
    }
    skip(end)
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn base64_is_decoded_with_line_breaks_and_loose_bits() {
        for (text, wanted) in [
            ("", &b""[..]),
            ("YWFh", b"aaa"),
            ("YWFh\nYWFh\r\n", b"aaaaaa"),
            ("Y\nQ\n=\n=\n", b"a"),
            ("YWE=", b"aa"),
            // The last bits belong to no byte.
            ("YR==", b"a"),
            ("YWF=", b"aa"),
        ] {
            assert_eq!(decode(text).as_deref(), Ok(wanted), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_byte_that_go_names() {
        for (text, at) in [
            ("a", 0),
            ("YWFhYW", 4),
            ("YWFhYWE", 4),
            ("YW-h", 2),
            ("=", 0),
            ("Y=", 1),
            ("YQ=", 3),
            ("YQ=x", 2),
            ("YQ==x", 4),
            ("YWE=\nx", 5),
            ("YWFh\nYW", 5),
        ] {
            assert_eq!(decode(text), Err(at), "{text:?}");
        }
    }
}
