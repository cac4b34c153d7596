//! Machine: reads durations, booleans and percent escapes as Go does, and writes texts and numbers as Go prints them.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str};
use serde_json::Value;

/// The bytes that Go escapes in a query: all except letters, digits and `-._~`.
pub const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The units of a duration, with their nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Go's limit of a duration in nanoseconds; only a negative duration can have exactly this number.
const MOST: u64 = 1 << 63;

/// Decodes percent escapes as Go's `url.PathUnescape` does; `None` for an invalid escape or a result that is not UTF-8.
pub fn unescape(text: &str) -> Option<String> {
    let mut escapes = text.split('%').skip(1).map(str::as_bytes);
    let is_escape = |digits: &[u8]| matches!(digits, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    if !escapes.all(is_escape) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Parses a boolean as Go's `strconv.ParseBool` does. Returns `None` for any other text.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a duration into nanoseconds: an optional sign, then numbers with units, such as `-1h30.5m`.
///
/// # Errors
/// Fails with Go's message if the text is no duration.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let whole = whole_number(whole).ok_or_else(invalid)?;
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, length)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let (unit, text) = (quoted(unit), quoted(text));
            return Err(format!("time: unknown unit {unit} in duration {text}"));
        };
        let part = whole.checked_mul(*length);
        let part = part.and_then(|part| part.checked_add(part_of(fraction, *length)));
        let sum = part.and_then(|part| total.checked_add(part));
        total = sum.ok_or_else(invalid)?;
        rest = after;
    }
    let read = if text.starts_with('-') {
        0_i64.checked_sub_unsigned(total)
    } else {
        i64::try_from(total).ok()
    };
    read.ok_or_else(invalid)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn whole_number(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    digits.parse().ok().filter(|number| *number <= MOST)
}

/// Returns the nanoseconds of the digits after a point, computed in floats as in Go.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "fractions of a nanosecond are dropped, and no unit is larger than an hour"
)]
fn part_of(digits: &str, unit: u64) -> u64 {
    let (mut number, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        let next = number.checked_mul(10);
        let next = next.and_then(|next| next.checked_add(u64::from(digit - b'0')));
        // Digits that do not fit into the sum are ignored.
        let Some(next) = next.filter(|next| *next <= MOST) else {
            break;
        };
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Quotes a text as Go's `strconv.Quote` and `%q` do. This differs from JSON for control characters (`\x01`, `\a`,
/// `\v`) and for other characters that are not printable.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            // Writing to a `String` does not fail.
            c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)).unwrap_or_default(),
            c if u32::from(c) <= 0xffff => {
                write!(out, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            c => write!(out, "\\U{:08x}", u32::from(c)).unwrap_or_default(),
        }
    }
    out.push('"');
    out
}

/// Returns whether Go prints a character unescaped, as it prints no space but the ASCII one.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // The standard library reveals the category of a character only by escaping a text with it. It escapes every mark
    // at the beginning of a text, so a letter comes first.
    let mut probe = String::from("a");
    probe.push(c);
    !probe.escape_debug().any(|c| c == '\\')
}

/// Prints a value as upstream's `field.Error` does: a text as [`quote`] does, another value as `json.Marshal` does.
pub fn print_in_error(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => escape_html(&value.to_string()),
    }
}

/// Prints a value as the verb `%v` does, for instance `map[a:1 b:[x y]]`.
pub fn print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => print_list(items),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name}:{}", print(value));
            let printed: Vec<String> = members.iter().map(member).collect();
            format!("map[{}]", printed.join(" "))
        }
    }
}

/// Prints a list of values as [`print()`] prints an array.
pub fn print_list(items: &[Value]) -> String {
    let printed: Vec<String> = items.iter().map(print).collect();
    format!("[{}]", printed.join(" "))
}

/// Returns the name of the Go type of a decoded JSON value, as the verb `%T` prints it.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Escapes the characters in a JSON document that Go's encoder escapes and JSON allows. They occur only in texts, where
/// the escape and the character mean the same.
pub fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            c => out.push(c),
        }
    }
    out
}

/// Quotes a text as Go's package `time` does: bytes other than printable ASCII are escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=0x7f => out.push(char::from(byte)),
            // Writing to a `String` does not fail.
            _ => write!(out, "\\x{byte:02x}").unwrap_or_default(),
        }
    }
    out.push('"');
    out
}

/// Returns a word with a capital as its first letter, as Go names what a package exports.
pub fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Prints a number as Go's `%g` does.
pub fn print_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    shortest(&format!("{number:e}"), || number.to_string())
}

/// Prints a 32-bit number as [`print_double`] prints a 64-bit number, with as many digits as 32 bits need.
pub fn print_float(number: f32) -> String {
    if number.is_finite() {
        shortest(&format!("{number:e}"), || number.to_string())
    } else {
        print_double(number.into())
    }
}

/// Returns `scientific`, the form with an exponent, or the form without an exponent, as Go chooses.
fn shortest(scientific: &str, plain: impl FnOnce() -> String) -> String {
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific.to_owned();
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return plain();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:0>2}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_the_verb_q_quotes_them() {
        for (text, quoted) in [
            ("", r#"""#.to_owned() + "\""),
            ("a b", r#""a b""#.to_owned()),
            ("a'\"\\", r#""a'\"\\""#.to_owned()),
            (
                "\0\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1b}\u{7f}",
                r#""\x00\x01\a\b\t\n\v\f\r\x1b\x7f""#.to_owned(),
            ),
            (
                "\u{80}\u{a0}\u{ad}\u{200b}\u{2028}",
                r#""\u0080\u00a0\u00ad\u200b\u2028""#.to_owned(),
            ),
            (
                "\u{e000}\u{feff}\u{e0001}",
                r#""\ue000\ufeff\U000e0001""#.to_owned(),
            ),
            (
                "\u{301}\u{e4}\u{4e16}\u{1f600}<&>\u{fffd}",
                "\"\u{301}\u{e4}\u{4e16}\u{1f600}<&>\u{fffd}\"".to_owned(),
            ),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn lists_and_objects_are_printed_as_go_marshals_them() {
        let value = serde_json::json!({"a": ["<&>", "\u{1}", 1.5, null]});
        assert_eq!(
            print_in_error(&value),
            r#"{"a":["\u003c\u0026\u003e","\u0001",1.5,null]}"#
        );
        assert_eq!(print_in_error(&serde_json::json!("<\u{1}>")), r#""<\x01>""#);
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("1h2m3.5s", 3_723_500_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("+5s", 5_000_000_000),
            ("100ms", 100_000_000),
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1.05s", 1_050_000_000),
            ("1.000000001s", 1_000_000_001),
            ("0.0000000000009h", 3),
            ("0.33333333333333333333333333h", 1_200_000_000_000),
            ("3us4ns", 3_004),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("0000000000000000000000000001ns", 1),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn an_invalid_duration_is_refused_in_gos_words() {
        for text in [
            "", "-", "abc", ".s", "s", "+-1s", "--1s", "one", "9999999999h",
            "9223372036854775808ns", "-9223372036854775809ns", "9223372036854775807ns1ns",
            // A number that is too large is reported before an error in the text behind it.
            "9999999999999999999", "99999999999999999999",
        ] {
            let why = format!("time: invalid duration \"{text}\"");
            assert_eq!(parse_duration(text), Err(why));
        }
        for text in ["10", "1..5s", "1s2"] {
            let why = format!("time: missing unit in duration \"{text}\"");
            assert_eq!(parse_duration(text), Err(why));
        }
        for (text, unit) in [("5d", "d"), ("1ss", "ss"), ("1h-2m", "h-"), ("1S", "S")] {
            let why = format!("time: unknown unit \"{unit}\" in duration \"{text}\"");
            assert_eq!(parse_duration(text), Err(why));
        }
        let why = r#"time: unknown unit "\xc2\xb5x\"\\\x0a" in duration "5\xc2\xb5x\"\\\x0a""#;
        assert_eq!(parse_duration("5\u{b5}x\"\\\n"), Err(why.to_owned()));
    }
}
