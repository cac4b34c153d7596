//! Machine: parses JSON with the error messages of Go's decoder.

pub mod duplicates;

use serde_json::{Map, Value};

use crate::go;

/// How error messages of `serde_json` begin, each with the words of Go's parser for the same error.
const PLACES: [(&str, &str); 6] = [
    (
        "key must be a string",
        "looking for beginning of object key string",
    ),
    ("expected value", "looking for beginning of value"),
    ("trailing characters", "after top-level value"),
    ("expected `:`", "after object key"),
    ("expected `,` or `}`", "after object key:value pair"),
    ("expected `,` or `]`", "after array element"),
];

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

/// Returns a parse error in the words of Go's parser; in those of `serde_json` if Go's are not known.
fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let text = error.to_string();
    let Some(at) = offset_of(bytes, error.line(), error.column()) else {
        return text;
    };
    let found = quoted(char::from(bytes[at]));
    if text.starts_with("expected ident") {
        return match literal(bytes, at) {
            Some((word, wanted)) => {
                format!("invalid character {found} in literal {word} (expecting '{wanted}')")
            }
            None => text,
        };
    }
    match PLACES.iter().find(|(start, _)| text.starts_with(start)) {
        Some((_, place)) => format!("invalid character {found} {place}"),
        None => text,
    }
}

/// Returns the literal that the bytes before offset `at` begin, and its character that is expected at `at`.
fn literal(bytes: &[u8], at: usize) -> Option<(&'static str, &'static str)> {
    for word in ["null", "true", "false"] {
        for length in (1..word.len()).rev() {
            if bytes[..at].ends_with(&word.as_bytes()[..length]) {
                return Some((word, &word[length..=length]));
            }
        }
    }
    None
}

/// Returns the byte offset of a line and a column, both counted from 1.
fn offset_of(bytes: &[u8], line: usize, column: usize) -> Option<usize> {
    let mut start = 0;
    for _ in 1..line {
        start += bytes.get(start..)?.iter().position(|byte| *byte == b'\n')? + 1;
    }
    let at = (start + column).checked_sub(1)?;
    (at < bytes.len()).then_some(at)
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
