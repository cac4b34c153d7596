//! Machine: decodes base64 as Go's `encoding/base64` does, which skips line breaks and ignores the bits after the last
//! byte.

/// Decodes padded base64 of the standard alphabet.
///
/// # Errors
/// Returns the position that Go's `CorruptInputError` names, in bytes of the text.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits) = (0_u32, 0);
    for (at, &byte) in text.iter().enumerate() {
        if is_break(byte) {
            continue;
        }
        let Some(digit) = digit(byte) else {
            check_padding(text, at, digits)?;
            push(&mut bytes, group << (6 * (4 - digits)), digits - 1);
            return Ok(bytes);
        };
        group = group << 6 | digit;
        digits += 1;
        if digits == 4 {
            push(&mut bytes, group, 3);
            (group, digits) = (0, 0);
        }
    }
    match digits {
        0 => Ok(bytes),
        // The position that Go computes is that of the group, if no line break is inside.
        digits => Err(text.len() - digits),
    }
}

/// Checks the rest of a text, which begins at `at` with a byte that is no digit, after `digits` digits of a group.
fn check_padding(text: &[u8], at: usize, digits: usize) -> Result<(), usize> {
    if text[at] != b'=' || digits < 2 {
        return Err(at);
    }
    let skip = |from: usize| {
        let rest = text[from..].iter();
        from + rest.take_while(|byte| is_break(**byte)).count()
    };
    let mut end = at + 1;
    if digits == 2 {
        let second = skip(end);
        match text.get(second) {
            None => return Err(text.len()),
            Some(b'=') => end = second + 1,
            Some(_) => return Err(second - 1),
        }
    }
    match skip(end) {
        end if end < text.len() => Err(end),
        _ => Ok(()),
    }
}

/// Appends the first `count` of the three bytes of a group.
fn push(bytes: &mut Vec<u8>, group: u32, count: usize) {
    bytes.extend(group.to_be_bytes().iter().skip(1).take(count));
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn digit(byte: u8) -> Option<u32> {
    let digit = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(digit.into())
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
