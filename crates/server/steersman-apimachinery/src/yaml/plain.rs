//! Machine: decides whether a text can be written without quotes, because it does not parse as another type.

use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use crate::constant_pattern::{ConstantPattern, is_match};

/// The words that parse as booleans, as null, or as the merge key.
const WORDS: &[&str] = &[
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO",
    "true", "True", "TRUE", "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF",
    ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
    "-.INF", "<<",
];

/// The pattern of integers in any base. A text that begins with 0 is octal, and no integer if it has an 8 or a 9.
static INTEGER: ConstantPattern = LazyLock::new(|| {
    Regex::new("^[-+]?(?:0|[1-9][0-9]*|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+)$").ok()
});

/// The pattern of numbers with or without a fraction and an exponent.
static FLOAT: ConstantPattern = LazyLock::new(|| {
    Regex::new(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$").ok()
});

/// The pattern of numbers of base 60, such as `12:30:45`, which Go's writer quotes, although YAML 1.2 lacks them.
static SEXAGESIMAL: ConstantPattern =
    LazyLock::new(|| Regex::new(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$").ok());

/// The pattern of a date, or of a date and a time, with parts of one or two digits.
static TIMESTAMP: ConstantPattern = LazyLock::new(|| {
    let time = "(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](?:[.,][0-9]+)?";
    let zone = "(?:Z|[-+](?:[01][0-9]|2[0-4]):[0-5][0-9])";
    let date = "([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})";
    Regex::new(&format!("^{date}(?:[Tt]{time}{zone}| {time})?$")).ok()
});

/// Returns whether a text without quotes parses as that text by the rules of YAML 1.1 (`resolve.go` of `go-yaml` 2).
pub(super) fn is_text(text: &str) -> bool {
    if WORDS.contains(&text) {
        return false;
    }
    match text.as_bytes().first() {
        Some(b'.') => !is_float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let bare = text.replace('_', "");
            !(is_timestamp(text)
                || is_match(&INTEGER, &bare)
                || is_float(&bare)
                || is_match(&SEXAGESIMAL, text))
        }
        _ => true,
    }
}

/// Returns whether a text is a number within the range of a 64-bit float.
fn is_float(text: &str) -> bool {
    is_match(&FLOAT, text) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns whether a text is a date, or a date and a time.
pub(super) fn is_timestamp(text: &str) -> bool {
    let parts = TIMESTAMP.as_ref().and_then(|regex| regex.captures(text));
    let date = parts.and_then(|parts| {
        let (_, [year, month, day]) = parts.extract();
        Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
    });
    date.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_parse_as_another_type_are_recognised() {
        for text in [
            "", "~", "y", "NO", "off", ".inf", "<<", "1", "-1", "+5", "017", "08", "0x1F", "0b1",
            "0o7", "1_000", "1.5", "1.", ".5", "1e3", "1.5E-7", "12:30:45", "1:20", "-1:20.5",
            "2026-01-01", "2026-1-2", "2026-01-01T00:00:00Z", "2026-01-01t1:2:3.25+01:00",
            "2026-01-01 10:00:00", "99999999999999999999",
        ] {
            assert!(!is_text(text), "{text}");
        }
        for text in [
            ".", "..", "-", "a", "f:data", "1a", "1.2.3", "10.0.0.1", "0x", "0xg", "1e", "1e999",
            "1:60", "1::2", "2026-13-01", "2026-02-30", "2026-01-01T00:00Z", "2026-01", "+",
            "100m", "5Gi", "tRue", "v1", "12:30:45x", "é", "2026-01-01T24:00:00Z",
        ] {
            assert!(is_text(text), "{text}");
        }
    }
}
