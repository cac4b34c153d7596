//! Words: the named formats of strings in custom resources (upstream: `strfmt`).

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;
use steersman_apimachinery::constant_pattern::{ConstantPattern, is_match};
use steersman_apimachinery::{go, names};
use steersman_cel::Url;
use steersman_cel::structural::Structural;

/// Returns whether a text has a format. Unknown formats accept every text.
#[must_use]
pub(crate) fn fits(format: &str, text: &str) -> bool {
    of_string(format).is_none_or(|fits| fits(text))
}

/// The check of a text's format.
type FormatCheck = fn(&str) -> bool;

/// The formats of strings that upstream checks, by their names without dashes.
const OF_STRINGS: &[(&str, FormatCheck)] = &[
    ("bsonobjectid", is_object_id),
    ("byte", |text| is_match(&BYTE, text)),
    ("cidr", is_network),
    ("creditcard", is_card),
    ("date", is_date),
    ("datetime", is_time),
    ("duration", is_duration),
    ("email", is_mail),
    ("hexcolor", |text| is_match(&HEX_COLOUR, text)),
    ("hostname", is_host),
    ("ipv4", |text| text.contains('.') && is_address(text)),
    ("ipv6", |text| text.contains(':') && is_address(text)),
    ("isbn", |text| is_book_10(text) || is_book_13(text)),
    ("isbn10", is_book_10),
    ("isbn13", is_book_13),
    ("k8slongname", is_long_name),
    ("k8sshortname", |text| names::check_label(text).is_empty()),
    ("mac", is_hardware),
    ("password", |_| true),
    ("rgbcolor", |text| is_match(&RGB, text)),
    ("ssn", |text| is_match(&SOCIAL, text)),
    ("uri", |text| Url::parse(text).is_ok()),
    ("uuid", |text| is_uuid(text, "")),
    ("uuid3", |text| is_uuid(text, "3")),
    ("uuid4", |text| is_uuid(text, "4")),
    ("uuid5", |text| is_uuid(text, "5")),
];

fn of_string(format: &str) -> Option<FormatCheck> {
    let name = format.replace('-', "");
    let found = OF_STRINGS.iter().find(|(known, _)| *known == name);
    found.map(|(_, check)| *check)
}

/// Returns whether validation checks a format of the values of a type.
///
/// Source: `StripUnsupportedFormatsPostProcessorForVersion` and `GetUnrecognizedFormats` of apiextensions-apiserver.
#[must_use]
pub(crate) fn is_checked_format(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => of_string(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns the format of a schema; empty for a format that its type does not have.
pub(crate) fn checked(schema: &Structural) -> &str {
    let format = &*schema.format;
    if is_checked_format(&schema.kind, format) {
        format
    } else {
        ""
    }
}

static BYTE: ConstantPattern = LazyLock::new(|| {
    Regex::new(
        r"^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})$",
    )
    .ok()
});
static HEX_COLOUR: ConstantPattern =
    LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static SOCIAL: ConstantPattern =
    LazyLock::new(|| Regex::new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static TIME: ConstantPattern = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});
static LONG_DURATION: ConstantPattern =
    LazyLock::new(|| Regex::new(r"^\s*(?:[0-9]+\s*[A-Za-z\x{b5}]+\s*)+$").ok());
static HARDWARE: ConstantPattern = LazyLock::new(|| {
    let (byte, pair) = ("[0-9A-Fa-f]{2}", "[0-9A-Fa-f]{4}");
    let pattern = format!(r"^(?:{byte}(?::{byte})*|{byte}(?:-{byte})*|{pair}(?:\.{pair})*)$");
    Regex::new(&pattern).ok()
});
static RGB: ConstantPattern = LazyLock::new(|| {
    let part = r"\s*(?:0|1[0-9]{0,2}|2(?:[0-4][0-9]?|5[0-5]?|[6-9])?|[3-9][0-9]?)\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static UUID: ConstantPattern = LazyLock::new(|| {
    let pattern = "^X{8}-?X{4}-?(X)X{3}-?(X)X{3}-?X{12}$".replace('X', "[0-9A-Fa-f]");
    Regex::new(&pattern).ok()
});
/// By upstream's pattern, a name without dots may contain a dash only as its second character.
static HOST: ConstantPattern = LazyLock::new(|| {
    let pattern = r"^(?:X-?X*|(?:X(?:(?:X|-)*X)?\.)+X(?:-?X)+)$";
    Regex::new(&pattern.replace('X', r"[a-zA-Z0-9\p{S}\p{L}]")).ok()
});
/// An e-mail address (RFC 5322), with or without a display name.
static MAIL: ConstantPattern = LazyLock::new(|| {
    let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{a0}-\x{10ffff}-]";
    let address = r#"(?:".*"|X+(?:\.X+)*)@(?:\[([0-9A-Fa-f:.]+)\]|X+(?:\.X+)*)"#;
    let pattern = format!(r#"(?s)^\s*(?:{address}|(?:".*"|(?:X|[.\s])*)\s*<{address}>)\s*$"#);
    Regex::new(&pattern.replace('X', atom)).ok()
});

fn is_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_host(text: &str) -> bool {
    let fits = text.len() <= 255 && text.split('.').all(|label| label.len() <= 63);
    fits && is_match(&HOST, text)
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_long_name(text: &str) -> bool {
    names::is_subdomain(text) && text.len() <= 253
}

fn is_network(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        let most = if address.contains(':') { 128 } else { 32 };
        address.parse::<IpAddr>().is_ok()
            && length.bytes().all(|b| b.is_ascii_digit())
            && length.parse::<u16>().is_ok_and(|length| length <= most)
    })
}

fn is_hardware(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    is_match(&HARDWARE, text) && matches!(digits, 12 | 16 | 40)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(found) = TIME.as_ref().and_then(|pattern| pattern.captures(time)) else {
        return false;
    };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Returns whether a text is a duration of Go, or has longer units (`2 days 3 hours`).
fn is_duration(text: &str) -> bool {
    const UNITS: &[(&[&str], &str)] = &[
        (&["ns"], "nano"),
        (&["us", "\u{b5}s"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    if go::parse_duration(text).is_ok() {
        return true;
    }
    let known = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS
            .iter()
            .any(|(short, long)| short.contains(&unit.as_str()) || unit.starts_with(long))
    };
    let plain = |c: char| c.is_ascii_digit() || c.is_whitespace();
    is_match(&LONG_DURATION, text)
        && text
            .split(plain)
            .any(|unit| !unit.is_empty() && known(unit))
}

fn is_mail(text: &str) -> bool {
    let found = MAIL.as_ref().and_then(|pattern| pattern.captures(text));
    found.is_some_and(|found| {
        let address = found.get(1).or_else(|| found.get(2));
        address.is_none_or(|address| address.as_str().parse::<IpAddr>().is_ok())
    })
}

/// Returns whether a text is a UUID of a version, or of any version if none is given.
fn is_uuid(text: &str, version: &str) -> bool {
    let found = UUID.as_ref().and_then(|pattern| pattern.captures(text));
    found.is_some_and(|found| {
        let has_variant = matches!(&found[2], "8" | "9" | "a" | "A" | "b" | "B");
        (version.is_empty() || found[1] == *version)
            && (!matches!(version, "4" | "5") || has_variant)
    })
}

fn bare(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '-' && !c.is_whitespace())
        .collect()
}

fn digits(text: &str) -> Option<Vec<u32>> {
    text.chars().map(|c| c.to_digit(10)).collect()
}

/// Returns whether a text is an ISBN of ten digits. The last digit may be `X`, which stands for ten.
fn is_book_10(text: &str) -> bool {
    let value = |(at, c): (usize, char)| match c {
        'X' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    let all: Option<Vec<u32>> = bare(text).chars().enumerate().map(value).collect();
    all.is_some_and(|all| all.len() == 10 && weighted_sum(1.., &all).is_multiple_of(11))
}

fn is_book_13(text: &str) -> bool {
    let weights = [1, 3].into_iter().cycle();
    digits(&bare(text))
        .is_some_and(|all| all.len() == 13 && weighted_sum(weights, &all).is_multiple_of(10))
}

fn weighted_sum(weights: impl Iterator<Item = u32>, digits: &[u32]) -> u32 {
    let products = weights.zip(digits).map(|(weight, digit)| weight * digit);
    products.sum()
}

/// Returns whether a text has a card issuer's prefix and a valid Luhn checksum.
fn is_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let Some(all) = digits(&number) else {
        return false;
    };
    let issued = matches!(all.len(), 13..=16)
        && (matches!(all.first(), Some(2..=6)) || number.starts_with("1800"));
    let sum: u32 = all
        .iter()
        .rev()
        .zip([1, 2].into_iter().cycle())
        .map(|(digit, weight)| digit * weight)
        .map(|product| product / 10 + product % 10)
        .sum();
    issued && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn formats_accept_valid_texts_and_refuse_others() {
        for (format, good, bad) in [
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("byte", "aGk=", ""),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("creditcard", "4111-1111-1111-1111", "4111111111111112"),
            ("date", "2024-02-29", "2024-2-29"),
            (
                "date-time", "2024-01-01t00:00:00.5+02:00", "2024-01-01T24:00:00Z",
            ),
            ("datetime", "2024-01-01T00:00:00Z", "2024-01-01"),
            ("duration", "1h30m", "1x"),
            ("duration", "-1.5h", "--1h"),
            ("duration", "2 days 3 hours", "5"),
            ("email", "A B <a.b@example.com>", "a@@b"),
            ("email", "a@b", "a b@c"),
            ("hexcolor", "#fff", "#ffff"),
            ("hostname", "a-b.example.com", "my-long-host"),
            ("hostname", "localhost", "a_b.com"),
            ("hostname", "a-", "a.b"),
            ("email", "a@[10.0.0.1]", "a@[10.0.0]"),
            ("email", "\"a b\"@c.d", "a..b@c"),
            ("mac", "00-00-5e-00-53-01", "00:00:5e:00:53"),
            ("rgbcolor", "rgb(0,99,100)", "rgb(01,2,3)"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv6", "::1", "1.2.3.4"),
            ("isbn", "978-3-16-148410-0", "978-3-16-148410-1"),
            ("isbn10", "0-306-40615-2", "0306406153"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "A"),
            ("mac", "0000.5e00.5301", "00:00:5e-00:53:01"),
            ("rgbcolor", "rgb(1, 22, 255)", "rgb(1,2,256)"),
            ("ssn", "111-11-1111", "11-111-1111"),
            ("uri", "/path", "no scheme"),
            ("uuid", "123E4567e89b12d3a456426614174000", "123e4567"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("password", "anything", ""),
        ] {
            assert!(fits(format, good), "{format}: {good}");
            assert!(
                format == "password" || !fits(format, bad),
                "{format}: {bad}"
            );
        }
    }
}
