//! Machine: appends values to JSON text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Appends a string. Invalid UTF-8 is replaced by U+FFFD.
pub(crate) fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        match std::str::from_utf8(bytes) {
            Ok(text) => push_escaped(out, text.as_bytes()),
            Err(_) => push_escaped(out, String::from_utf8_lossy(bytes).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Returns whether all bytes are ASCII characters that stand for themselves in JSON.
fn is_plain(bytes: &[u8]) -> bool {
    const CHUNK: usize = 32;
    // There is no early exit within a chunk, so that the compiler compares its bytes at once.
    let all_plain = |part: &[u8]| {
        let special = |any, byte: &u8| any | must_escape(*byte) | (*byte >= 0x80);
        !part.iter().fold(false, special)
    };
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<CHUNK>() {
        if !all_plain(chunk) {
            return false;
        }
        rest = after;
    }
    all_plain(rest)
}

fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            byte => out.push(*byte),
        }
    }
}

pub(crate) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let at = out.len();
    // The length is exact, because base64 is padded. It cannot overflow for bytes in memory.
    out.resize(at + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[at..]);
    out.truncate(at + written.unwrap_or_default());
    out.push(b'"');
}

pub(crate) fn push_integer(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back() {
        let all: String = (0_u32..0x300).filter_map(char::from_u32).collect();
        for text in ["", "a", "0123456789abcdef", "0123456789abcde\"", &all] {
            let mut out = Vec::new();
            push_string(&mut out, text.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
        let mut out = Vec::new();
        push_string(&mut out, b"a\xff");
        assert_eq!(out, "\"a\u{fffd}\"".as_bytes());
    }

    #[test]
    fn bytes_are_base64() {
        for (bytes, wanted) in [("", "\"\""), ("a", "\"YQ==\""), ("abc", "\"YWJj\"")] {
            let mut out = Vec::new();
            push_base64(&mut out, bytes.as_bytes());
            assert_eq!(out, wanted.as_bytes());
        }
    }
}
