//! Machine: parses JSON and words its errors the way Go's decoder does, for clients and people
//! who know those.

use serde_json::Value;

/// Parses one JSON document.
///
/// # Errors
/// The message Go's `encoding/json` would give, in the common cases word for word.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| explain(bytes, &error))
}

fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let text = String::from_utf8_lossy(bytes);
    let start = text.trim_start_matches([' ', '\t', '\r', '\n']);
    let Some(first) = start.chars().next() else {
        return "unexpected end of JSON input".to_owned();
    };
    for literal in ["null", "true", "false"] {
        if !literal.starts_with(first) {
            continue;
        }
        let mut found = start.chars();
        for expected in literal.chars() {
            match found.next() {
                Some(found) if found == expected => {}
                Some(found) => {
                    let found = quoted(found);
                    return format!(
                        "invalid character {found} in literal {literal} (expecting '{expected}')"
                    );
                }
                None => return "unexpected end of JSON input".to_owned(),
            }
        }
    }
    if !matches!(first, '{' | '[' | '"' | '-' | 'n' | 't' | 'f' | '0'..='9') {
        return format!(
            "invalid character {} looking for beginning of value",
            quoted(first)
        );
    }
    let line = text
        .lines()
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    let at = error.column().saturating_sub(1).min(line.len());
    let found = String::from_utf8_lossy(&line.as_bytes()[at..]);
    let found = found.chars().next().map(quoted).unwrap_or_default();
    let before = line.as_bytes()[..at]
        .iter()
        .rev()
        .find(|b| !b.is_ascii_whitespace());
    match before {
        Some(b'{') => {
            format!("invalid character {found} looking for beginning of object key string")
        }
        Some(b':' | b'[') => format!("invalid character {found} looking for beginning of value"),
        _ if at == 0 || error.to_string().starts_with("trailing") => {
            format!("invalid character {found} after top-level value")
        }
        _ => format!("invalid character {found} in JSON: {error}"),
    }
}

fn quoted(c: char) -> String {
    match c {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        c if c.is_control() || c == char::REPLACEMENT_CHARACTER => {
            format!("'\\u{:04x}'", u32::from(c))
        }
        c => format!("'{c}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_its_errors_as_go_does() {
        for (text, message) in [
            ("", "unexpected end of JSON input"),
            ("{\"data\": ", "unexpected end of JSON input"),
            ("[{\"op\": \"add\"", "unexpected end of JSON input"),
            (
                "data:\n  a: x\n",
                "invalid character 'd' looking for beginning of value",
            ),
            (
                "not json at all",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            (
                "{bad",
                "invalid character 'b' looking for beginning of object key string",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), message, "{text}");
        }
        for bytes in [
            &b"\xff\xfe"[..],
            b"{\"a\":\xff}",
            b"{} {}",
            b"[1,]",
            b"{\"a\" 1}",
            b"-",
        ] {
            assert!(parse(bytes).is_err());
        }
    }
}
