//! Machine: parses JSON with the error messages of Go's decoder.

pub mod duplicates;

use serde_json::{Map, Value};

use crate::go;

/// Parses one JSON document.
///
/// # Errors
/// Fails with the message of Go's `encoding/json`, word for word in common cases.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| explain(bytes, &error))
}

/// Returns the members of a value; a value that is no object is replaced by an empty object.
pub fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("the lines above made it an object"),
    }
}

/// Replaces floats without a fraction in a value by integers, as Go's encoder writes them.
pub fn write_whole(value: &mut Value) {
    // Above this number, an integer may differ from the float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
            if let Some(whole) = whole {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it is whole and within bounds"
                )]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole),
        Value::Object(members) => members.values_mut().for_each(write_whole),
        _ => {}
    }
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
    let mut literals = ["null", "true", "false"].into_iter();
    if let Some(literal) = literals.find(|literal| literal.starts_with(first)) {
        let mut characters = literal.chars().zip(start.chars());
        if let Some((expected, found)) = characters.find(|(expected, found)| expected != found) {
            let found = quoted(found);
            return format!(
                "invalid character {found} in literal {literal} (expecting '{expected}')"
            );
        }
        if start.len() < literal.len() {
            return "unexpected end of JSON input".to_owned();
        }
    }
    if !matches!(first, '{' | '[' | '"' | '-' | 'n' | 't' | 'f' | '0'..='9') {
        let found = quoted(first);
        return format!("invalid character {found} looking for beginning of value");
    }
    let index = error.line().saturating_sub(1);
    let line = text.lines().nth(index).unwrap_or_default();
    let at = error.column().saturating_sub(1).min(line.len());
    let found = String::from_utf8_lossy(&line.as_bytes()[at..]);
    let found = found.chars().next().map(quoted).unwrap_or_default();
    let mut before = line.as_bytes()[..at].iter().rev();
    match before.find(|byte| !byte.is_ascii_whitespace()) {
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

/// Returns the error for an object if its `kind` or `apiVersion` is not text.
pub fn unreadable_kind(object: &Value) -> Option<String> {
    ["apiVersion", "kind"].into_iter().find_map(|field| {
        let found = match object.get(field)? {
            Value::Null | Value::String(_) => return None,
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Some(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go \
             struct field .{field} of type string"
        ))
    })
}

/// Quotes a character as Go's scanner does.
pub fn quoted(c: char) -> String {
    match c {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        '\\' => "'\\\\'".to_owned(),
        char::REPLACEMENT_CHARACTER => "'\\ufffd'".to_owned(),
        c if c.is_control() => go::quote(&c.to_string()).replace('"', "'"),
        c => format!("'{c}'"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_errors_are_worded_as_gos() {
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

    #[test]
    fn a_kind_must_be_a_text() {
        let why = |object: Value| unreadable_kind(&object);
        assert_eq!(why(json!({"kind": "K", "apiVersion": null})), None);
        assert_eq!(
            why(json!({"kind": 5, "metadata": {}})).unwrap(),
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go \
             struct field .kind of type string"
        );
        assert!(
            why(json!({"kind": 5, "apiVersion": {}}))
                .unwrap()
                .contains("object into")
        );
    }

    #[test]
    fn characters_are_quoted_as_go_quotes_them() {
        let table = [
            ('i', "'i'"),
            ('\'', "'\\''"),
            ('\u{1}', "'\\x01'"),
            ('\n', "'\\n'"),
            ('\u{81}', "'\\u0081'"),
        ];
        for (c, text) in table {
            assert_eq!(quoted(c), text);
        }
    }
}
