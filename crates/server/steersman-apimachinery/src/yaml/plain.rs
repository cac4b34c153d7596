//! Machine: decides whether a text can be written without quotes, or would parse as another type.

/// Words that parse as booleans, as null, or as the merge key.
const WORDS: &[&str] = &[
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO",
    "true", "True", "TRUE", "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF",
    ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
    "-.INF", "<<",
];

/// Returns whether a text without quotes parses as that text, by the rules of YAML 1.1 that Go's
/// reader follows (`resolve.go` of `go-yaml` 2).
pub(super) fn is_text(text: &str) -> bool {
    if WORDS.contains(&text) {
        return false;
    }
    match text.as_bytes().first() {
        Some(b'.') => !is_float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let bare = text.replace('_', "");
            !(is_timestamp(text) || is_integer(&bare) || is_float(&bare) || is_sexagesimal(text))
        }
        _ => true,
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns whether a text is an integer in any base. A text that begins with 0 is octal, and no
/// integer if it contains an 8 or 9.
fn is_integer(text: &str) -> bool {
    let text = unsigned(text);
    let of = |rest: &str, base: u32| !rest.is_empty() && rest.chars().all(|c| c.is_digit(base));
    match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => of(&text[2..], 16),
        [b'0', b'o' | b'O', ..] => of(&text[2..], 8),
        [b'0', b'b' | b'B', ..] => of(&text[2..], 2),
        [b'0', _, ..] => of(&text[1..], 8),
        _ => of(text, 10),
    }
}

/// Returns whether a text is a number, with or without fraction and exponent, within the range of a
/// float.
fn is_float(text: &str) -> bool {
    let bare = unsigned(text);
    let whole = digits(bare);
    let mut rest = &bare[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if whole + length == 0 {
            return false;
        }
        rest = &fraction[length..];
    } else if whole == 0 {
        return false;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = unsigned(exponent);
        let length = digits(exponent);
        if length == 0 {
            return false;
        }
        rest = &exponent[length..];
    }
    rest.is_empty() && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns whether a text is a number of base 60 such as `12:30:45`. YAML 1.2 dropped these, but
/// Go's writer still quotes them.
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = unsigned(text).split(':');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|c: char| c.is_ascii_digit())
        || !first
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    {
        return false;
    }
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return false;
    }
    while let Some(part) = parts.next() {
        let (part, fraction) = match part.split_once('.') {
            Some((part, fraction)) if parts.peek().is_none() => (part, fraction),
            _ => (part, ""),
        };
        let fits = match part.as_bytes() {
            [ones] => ones.is_ascii_digit(),
            [b'0'..=b'5', ones] => ones.is_ascii_digit(),
            _ => false,
        };
        let fraction = fraction
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_');
        if !fits || !fraction {
            return false;
        }
    }
    true
}

/// Returns whether a text is a date, or a date and a time, with parts of one or two digits.
pub(super) fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_at_checked(4) else {
        return false;
    };
    let Some(year) = number(year).filter(|_| digits(text) == 4) else {
        return false;
    };
    let Some((month, rest)) = rest.strip_prefix('-').and_then(short) else {
        return false;
    };
    let Some((day, rest)) = rest.strip_prefix('-').and_then(short) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    if !(1..=length).contains(&day) {
        return false;
    }
    match rest.as_bytes().first() {
        None => true,
        Some(b'T' | b't') => time(&rest[1..]).is_some_and(is_zone),
        Some(b' ') => time(&rest[1..]).is_some_and(str::is_empty),
        _ => false,
    }
}

/// Parses a time of day and returns the text after it.
fn time(text: &str) -> Option<&str> {
    let (hour, rest) = short(text)?;
    let (minute, rest) = short(rest.strip_prefix(':')?)?;
    let (second, rest) = short(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = rest.strip_prefix(['.', ',']).map_or(0, digits);
    Some(if fraction == 0 {
        rest
    } else {
        &rest[1 + fraction..]
    })
}

fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'Z'] => true,
        [b'+' | b'-', hours @ .., b':', _, _] if hours.len() == 2 => {
            number(&text[1..3]).is_some_and(|hours| hours <= 24)
                && number(&text[4..]).is_some_and(|minutes| minutes < 60)
        }
        _ => false,
    }
}

/// Parses a number of one or two digits and returns the text after it.
fn short(text: &str) -> Option<(u32, &str)> {
    let (number_, rest) = text.split_at(digits(text).min(2));
    Some((number(number_)?, rest))
}

fn number(text: &str) -> Option<u32> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_parse_as_another_type_are_recognised() {
        for text in [
            "",
            "~",
            "y",
            "NO",
            "off",
            ".inf",
            "<<",
            "1",
            "-1",
            "+5",
            "017",
            "08",
            "0x1F",
            "0b1",
            "0o7",
            "1_000",
            "1.5",
            "1.",
            ".5",
            "1e3",
            "1.5E-7",
            "12:30:45",
            "1:20",
            "-1:20.5",
            "2026-01-01",
            "2026-1-2",
            "2026-01-01T00:00:00Z",
            "2026-01-01t1:2:3.25+01:00",
            "2026-01-01 10:00:00",
            "99999999999999999999",
        ] {
            assert!(!is_text(text), "{text}");
        }
        for text in [
            ".",
            "..",
            "-",
            "a",
            "f:data",
            "1a",
            "1.2.3",
            "10.0.0.1",
            "0x",
            "0xg",
            "1e",
            "1e999",
            "1:60",
            "1::2",
            "2026-13-01",
            "2026-02-30",
            "2026-01-01T00:00Z",
            "2026-01",
            "+",
            "100m",
            "5Gi",
            "tRue",
            "v1",
            "12:30:45x",
            "é",
            "2026-01-01T24:00:00Z",
        ] {
            assert!(is_text(text), "{text}");
        }
    }
}
