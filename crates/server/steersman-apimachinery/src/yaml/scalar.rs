//! Machine: decides about the value of a scalar's text, as go-yaml does.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::go_value::GoValue;
use super::plain::is_timestamp;

/// The prefix of the tags that YAML defines.
const YAML: &str = "tag:yaml.org,2002:";

/// Returns the value of a text with a tag; an empty tag means none.
///
/// Kubernetes source: `resolve` and `decoder.scalar` of `go.yaml.in/yaml/v2`.
///
/// # Errors
/// Fails if the text is no value of the tag's type.
pub(super) fn value(tag: &str, text: &str) -> Result<GoValue, String> {
    let tag = match tag.strip_prefix(YAML) {
        None if tag.is_empty() => "",
        Some(known @ ("str" | "bool" | "int" | "float" | "null" | "timestamp" | "binary")) => known,
        _ => "str",
    };
    match tag {
        "str" => return Ok(GoValue::Text(text.to_owned())),
        "binary" => return binary(text),
        _ => {}
    }
    let (found, value) = untagged(text, tag);
    match (tag, value) {
        ("", value) => Ok(value),
        ("float", GoValue::Int(number)) => {
            #[expect(clippy::cast_precision_loss, reason = "as in Go")]
            let number = number as f64;
            Ok(GoValue::float(number))
        }
        (tag, value) if tag == found => Ok(value),
        (tag, _) => Err(format!("cannot decode !!{found} `{text}` as a !!{tag}")),
    }
}

/// Returns the value of a text without a tag, and the name of its type.
fn untagged(text: &str, tag: &str) -> (&'static str, GoValue) {
    let string = || ("str", GoValue::Text(text.to_owned()));
    match text.as_bytes().first() {
        None => ("null", GoValue::Null),
        Some(b'.' | b'+' | b'-' | b'0'..=b'9') => {
            if let Some(number) = special_float(text) {
                return ("float", GoValue::float(number));
            }
            if text.starts_with('.') {
                return float(text).map_or_else(string, |number| ("float", GoValue::float(number)));
            }
            if tag == "timestamp" && is_timestamp(text) {
                return ("timestamp", GoValue::Text(text.to_owned()));
            }
            number(&text.replace('_', "")).unwrap_or_else(string)
        }
        Some(_) => match text {
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                ("bool", GoValue::Bool(true))
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => ("bool", GoValue::Bool(false)),
            "~" | "null" | "Null" | "NULL" => ("null", GoValue::Null),
            _ => string(),
        },
    }
}

fn special_float(text: &str) -> Option<f64> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Parses a number without underscores.
fn number(plain: &str) -> Option<(&'static str, GoValue)> {
    let (sign, digits) = split_sign(plain);
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if let Some(value) = integer(sign, digits, base) {
        return Some(("int", value));
    }
    if let Some(number) = float(plain) {
        return Some(("float", GoValue::float(number)));
    }
    // Such a number has a sign behind its prefix, too.
    let (sign, digits) = split_sign(plain.strip_prefix("0b")?);
    integer(sign, digits, 2).map(|value| ("int", value))
}

fn split_sign(text: &str) -> (Option<char>, &str) {
    match text.chars().next() {
        Some(sign @ ('+' | '-')) => (Some(sign), &text[1..]),
        _ => (None, text),
    }
}

/// Parses digits as a signed 64-bit number or, without a sign, as an unsigned one.
fn integer(sign: Option<char>, digits: &str, base: u32) -> Option<GoValue> {
    if !digits.starts_with(|first: char| first.is_digit(base)) {
        return None;
    }
    let signed = match sign {
        Some('-') => i64::from_str_radix(&format!("-{digits}"), base),
        _ => i64::from_str_radix(digits, base),
    };
    match (signed, sign) {
        (Ok(number), _) => Some(GoValue::Int(number)),
        (Err(_), None) => u64::from_str_radix(digits, base).ok().map(GoValue::Uint),
        (Err(_), Some(_)) => None,
    }
}

/// Parses a decimal number with a point or an exponent; `None` for a number beyond the range of a float.
fn float(text: &str) -> Option<f64> {
    let (_, digits) = split_sign(text);
    let is_decimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let has_digit = digits
        .trim_start_matches('.')
        .starts_with(|c: char| c.is_ascii_digit());
    if !has_digit || !digits.bytes().all(is_decimal) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn binary(text: &str) -> Result<GoValue, String> {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let text = text.replace(['\r', '\n'], "");
    let bytes = GeneralPurpose::new(&STANDARD, config)
        .decode(text)
        .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    // JSON replaces each byte that is not part of a UTF-8 character.
    let mut value = String::new();
    for chunk in bytes.utf8_chunks() {
        value.push_str(chunk.valid());
        value.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(GoValue::Text(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values were recorded with go-yaml 2.4.3.
    #[test]
    fn texts_stand_for_the_values_of_go() {
        let int = GoValue::Int;
        let float = GoValue::float;
        let text = |text: &str| GoValue::Text(text.to_owned());
        for (read, value_) in [
            ("08", float(8.0)),
            ("0o7", int(7)),
            ("0O17", int(15)),
            ("017", int(15)),
            ("-017", int(-15)),
            ("0b101", int(5)),
            ("-0b11", int(-3)),
            ("0b-1", int(-1)),
            ("0b12", text("0b12")),
            ("0x1F", int(31)),
            ("0x_1", int(1)),
            ("0xg", text("0xg")),
            ("1_000", int(1000)),
            ("1_", int(1)),
            ("_1", text("_1")),
            ("1_000.5", float(1000.5)),
            ("1.", float(1.0)),
            (".5", float(0.5)),
            (".5_0", text(".5_0")),
            (".", text(".")),
            ("1e3", float(1000.0)),
            ("1e999", text("1e999")),
            ("1.5.0", text("1.5.0")),
            ("18446744073709551615", GoValue::Uint(u64::MAX)),
            ("18446744073709551616", float(18_446_744_073_709_551_616.0)),
            (".inf", float(f64::INFINITY)),
            ("-.INF", float(f64::NEG_INFINITY)),
            (".iNf", text(".iNf")),
            ("inf", text("inf")),
            ("~", GoValue::Null),
            ("", GoValue::Null),
            ("nULL", text("nULL")),
            ("y", GoValue::Bool(true)),
            ("Off", GoValue::Bool(false)),
            ("yEs", text("yEs")),
            ("<<", text("<<")),
            ("2026-01-01", text("2026-01-01")),
            ("12:30:45", text("12:30:45")),
        ] {
            assert_eq!(value("", read), Ok(value_), "{read}");
        }
    }

    /// The values and errors were recorded with go-yaml 2.4.3.
    #[test]
    fn a_tag_decides_the_type_or_refuses_the_text() {
        let tagged = |tag: &str, text: &str| value(&format!("{YAML}{tag}"), text);
        let text = |text: &str| Ok(GoValue::Text(text.to_owned()));
        assert_eq!(tagged("str", "1"), text("1"));
        assert_eq!(tagged("str", ""), text(""));
        assert_eq!(tagged("foo", "1"), text("1"));
        assert_eq!(value("!foo", "yes"), text("yes"));
        assert_eq!(tagged("binary", "aGk="), text("hi"));
        assert_eq!(tagged("binary", "gIGC"), text("\u{fffd}\u{fffd}\u{fffd}"));
        assert_eq!(tagged("float", "0x10"), Ok(GoValue::float(16.0)));
        assert_eq!(tagged("timestamp", "2026-01-01"), text("2026-01-01"));
        for (tag, read, problem) in [
            ("int", "x", "cannot decode !!str `x` as a !!int"),
            ("int", "1.5", "cannot decode !!float `1.5` as a !!int"),
            ("int", "yes", "cannot decode !!bool `yes` as a !!int"),
            ("int", "", "cannot decode !!null `` as a !!int"),
            ("bool", "1", "cannot decode !!int `1` as a !!bool"),
            ("null", "x", "cannot decode !!str `x` as a !!null"),
            ("timestamp", "x", "cannot decode !!str `x` as a !!timestamp"),
            ("binary", "x", "!!binary value contains invalid base64 data"),
            (
                "binary",
                "aGk",
                "!!binary value contains invalid base64 data",
            ),
        ] {
            assert_eq!(tagged(tag, read), Err(problem.to_owned()), "!!{tag} {read}");
        }
    }
}
