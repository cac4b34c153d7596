//! Words: the named formats of strings in custom resources (upstream: `strfmt`).

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;
use steersman_apimachinery::{go, names};
use steersman_cel::Url;
use steersman_cel::structural::Structural;

/// Returns whether a text has the format of this name. Unknown formats accept every text; dashes in
/// the name are ignored.
#[must_use]
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "byte" => matches(text, &BYTE),
        "cidr" => is_network(text),
        "creditcard" => is_card(text),
        "date" => is_date(text),
        "datetime" => is_time(text),
        "duration" => is_duration(text),
        "email" => is_mail(text),
        "hexcolor" => matches(text, &HEX_COLOUR),
        "hostname" => is_host(text),
        "ipv4" => text.contains('.') && text.parse::<IpAddr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<IpAddr>().is_ok(),
        "isbn" => is_book_10(text) || is_book_13(text),
        "isbn10" => is_book_10(text),
        "isbn13" => is_book_13(text),
        "k8slongname" => names::is_subdomain(text) && text.len() <= 253,
        "k8sshortname" => names::check_label(text).is_empty(),
        "mac" => is_hardware(text),
        "rgbcolor" => is_rgb(text),
        "ssn" => matches(text, &SOCIAL),
        "uri" => Url::parse(text).is_ok(),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        _ => true,
    }
}

/// The formats of strings that upstream checks, without dashes.
const OF_STRINGS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns whether validation checks a format of the values of a type.
///
/// Source: `StripUnsupportedFormatsPostProcessorForVersion` and `GetUnrecognizedFormats` of
/// apiextensions-apiserver.
#[must_use]
pub(crate) fn is_checked_format(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => OF_STRINGS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns the format of a schema, or an empty text for a format that validation ignores because it
/// does not belong to the type.
pub(crate) fn checked(schema: &Structural) -> &str {
    let format = &*schema.format;
    if is_checked_format(&schema.kind, format) {
        format
    } else {
        ""
    }
}

type Pattern = LazyLock<Option<Regex>>;

static BYTE: Pattern = LazyLock::new(|| {
    Regex::new(
        r"^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})$",
    )
    .ok()
});
static HEX_COLOUR: Pattern =
    LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static SOCIAL: Pattern = LazyLock::new(|| Regex::new("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static TIME: Pattern = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});
static LONG_DURATION: Pattern =
    LazyLock::new(|| Regex::new(r"^\s*(?:[0-9]+\s*[A-Za-z\x{b5}]+\s*)+$").ok());
static SYMBOL: Pattern = LazyLock::new(|| Regex::new(r"^[\p{S}\p{L}]$").ok());

/// Returns whether a text matches a constant pattern. The tests check that all patterns compile.
fn matches(text: &str, pattern: &Pattern) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
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
    let (separator, width) = if text.contains(':') {
        (':', 2)
    } else if text.contains('-') {
        ('-', 2)
    } else {
        ('.', 4)
    };
    let mut parts = 0;
    let whole = text.split(separator).all(|part| {
        parts += 1;
        part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit())
    });
    whole && matches!(parts * width, 12 | 16 | 40)
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

/// Returns whether a text is a duration: as Go writes it, or as whole numbers with longer units (`2
/// days 3 hours`).
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
    matches(text, &LONG_DURATION)
        && text
            .split(plain)
            .any(|unit| !unit.is_empty() && known(unit))
}

/// Returns whether a text is an e-mail address (RFC 5322), with or without a display name.
fn is_mail(text: &str) -> bool {
    let text = text.trim();
    let address = match text
        .strip_suffix('>')
        .and_then(|rest| rest.rsplit_once('<'))
    {
        Some((name, address)) => {
            let name = name.trim();
            let quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
            let words = |c: char| is_atom(c) || c == '.' || c.is_whitespace();
            if !quoted && !name.chars().all(words) {
                return false;
            }
            address
        }
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atoms = |text: &str| {
        text.split('.')
            .all(|part| !part.is_empty() && part.chars().all(is_atom))
    };
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    let literal = domain
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|inner| inner.parse::<IpAddr>().is_ok());
    (quoted || atoms(local)) && (literal || atoms(domain))
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || "!#$%&'*+-/=?^_`{|}~".contains(c)
        || (!c.is_ascii() && !c.is_control())
}

/// Returns whether a text is a host name. By upstream's pattern, a name without dots may contain a
/// dash only as its second character.
fn is_host(text: &str) -> bool {
    let plain = |c: char| {
        c.is_ascii_alphanumeric()
            || (!(c.is_ascii() && c.is_ascii_alphanumeric())
                && matches(c.encode_utf8(&mut [0; 4]), &SYMBOL))
    };
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let Some((before, last)) = text.rsplit_once('.') else {
        let mut rest = text.chars();
        let first = rest.next().is_some_and(plain);
        let rest = rest.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(plain);
    };
    let edges = |label: &str| {
        let (first, last) = (label.chars().next(), label.chars().next_back());
        first.is_some_and(plain) && last.is_some_and(plain)
    };
    let inner = |label: &str| label.chars().all(|c| c == '-' || plain(c));
    let top = last.chars().count() > 1 && !last.contains("--");
    top && edges(last) && inner(last) && before.split('.').all(|label| edges(label) && inner(label))
}

/// Returns whether a text is a UUID: five groups of hexadecimal digits with optional dashes between
/// them.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = Vec::new();
    let mut rest = text.as_bytes();
    for (index, width) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if let (1.., Some((b'-', after))) = (index, rest.split_first()) {
            rest = after;
        }
        if rest.len() < width {
            return false;
        }
        let (group, after) = rest.split_at(width);
        digits.extend_from_slice(group);
        rest = after;
    }
    let variant = !matches!(version, Some(b'4' | b'5'))
        || matches!(digits[16].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b');
    rest.is_empty()
        && variant
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| digits[12] == version)
}

fn bare(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '-' && !c.is_whitespace())
        .collect()
}

fn digits(text: &str) -> Option<Vec<u32>> {
    text.chars().map(|c| c.to_digit(10)).collect()
}

fn is_book_10(text: &str) -> bool {
    let text = bare(text);
    let (body, last) = match text.strip_suffix('X') {
        Some(body) => (digits(body), Some(10)),
        None => match digits(&text) {
            Some(mut all) => {
                let last = all.pop();
                (Some(all), last)
            }
            None => (None, None),
        },
    };
    let (Some(body), Some(last)) = (body, last) else {
        return false;
    };
    let sum: u32 = (1..).zip(&body).map(|(weight, digit)| weight * digit).sum();
    body.len() == 9 && (sum + 10 * last).is_multiple_of(11)
}

fn is_book_13(text: &str) -> bool {
    let Some(all) = digits(&bare(text)) else {
        return false;
    };
    let sum: u32 = [1, 3]
        .into_iter()
        .cycle()
        .zip(&all)
        .map(|(weight, digit)| weight * digit)
        .sum();
    all.len() == 13 && sum.is_multiple_of(10)
}

/// Returns whether a text is a credit card number: a known issuer prefix, and a valid Luhn
/// checksum.
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

fn is_rgb(text: &str) -> bool {
    let inner = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
        let part = |part: &&str| {
            let plain = *part == "0" || !part.starts_with('0');
            plain && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok()
        };
        parts.len() == 3 && parts.iter().all(part)
    })
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
                "date-time",
                "2024-01-01t00:00:00.5+02:00",
                "2024-01-01T24:00:00Z",
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
