//! Machine: other texts for a text field, of the kind of the text that it has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use steersman_apimachinery::times;
use steersman_cel::structural::Structural;

/// The length up to which a text is made as long as its schema allows.
const MOST_LENGTH: u64 = 1_024;

/// Texts that satisfy many formats and patterns, the plainest first.
const SAMPLES: [&str; 16] = [
    "a", "example", "a1", "1", "10", "1Gi", "100m", "10s", "1.2.3", "v1", "A", "example.com",
    "https://example.com", "10.0.0.1", "*/5 * * * *", "aGVsbG8=",
];

/// Returns whether a schema allows a text. Formats that are easy to break by a counted number are checked; the server
/// refuses what is wrong otherwise.
pub(super) fn allows(schema: &Structural, text: &str) -> bool {
    let has_format = match &*schema.format {
        "date-time" => times::check(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, bits)| {
            address.parse::<IpAddr>().is_ok_and(|address| {
                let most = if address.is_ipv4() { 32 } else { 128 };
                bits.parse::<u8>().is_ok_and(|bits| bits <= most)
            })
        }),
        _ => true,
    };
    let rules = &schema.rules;
    let length = text.chars().count() as u64;
    let (least, most) = rules.length;
    has_format
        && least.is_none_or(|least| length >= least)
        && most.is_none_or(|most| length <= most)
        && rules
            .pattern
            .as_ref()
            .is_none_or(|pattern| pattern.matches(text))
}

/// Returns other texts that a schema allows in place of `text`: one like it, then the shortest and the longest.
pub(super) fn other_texts(schema: &Structural, text: &str) -> Vec<String> {
    let like = [counted(text, 1), counted(text, -1), appended(text)];
    let like = like.into_iter().flatten();
    let like = like
        .chain(invented_texts(schema))
        .find(|other| other != text && allows(schema, other));
    let mut all: Vec<String> = like.into_iter().collect();
    all.extend(at_bounds(schema, text));
    all
}

/// Returns texts for an absent field, the plainest first.
pub(super) fn invented_texts(schema: &Structural) -> impl Iterator<Item = String> {
    let of_format = match &*schema.format {
        "date-time" => Some("2030-01-01T00:00:00Z"),
        "date" => Some("2030-01-01"),
        "duration" => Some("10s"),
        "byte" => Some("aGVsbG8="),
        "ipv4" => Some("10.0.0.1"),
        "ipv6" => Some("fd00::1"),
        "cidr" => Some("10.0.0.0/24"),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => Some("3f333df6-90a4-4fda-8dd3-9485d27cee36"),
        "uri" => Some("https://example.com"),
        "email" => Some("a@example.com"),
        "hostname" => Some("example.com"),
        _ => None,
    };
    let has_format = of_format.is_some();
    let samples = SAMPLES.into_iter().filter(move |_| !has_format);
    let least = schema.rules.length.0.filter(|least| *least <= MOST_LENGTH);
    let padded = usize::try_from(least.unwrap_or_default()).ok();
    let padded = padded
        .map(|length| "a".repeat(length))
        .filter(|_| !has_format);
    of_format
        .into_iter()
        .chain(samples)
        .map(str::to_owned)
        .chain(padded)
        .filter(|text| allows(schema, text))
}

/// Returns the shortest and the longest text that the lengths of a schema allow, if they are others than `text`.
fn at_bounds(schema: &Structural, text: &str) -> Vec<String> {
    if !schema.format.is_empty() {
        return Vec::new();
    }
    let (least, most) = schema.rules.length;
    let of_length = |length: u64| {
        let length = usize::try_from(length).ok()?;
        let kept = text.chars().take(length);
        let more = length.saturating_sub(text.chars().count());
        Some(kept.chain(std::iter::repeat_n('a', more)).collect())
    };
    let shortest = of_length(least.unwrap_or_default());
    let longest = most.filter(|most| *most <= MOST_LENGTH).and_then(of_length);
    let bounds = [shortest, longest].into_iter().flatten();
    bounds
        .filter(|other: &String| other != text && allows(schema, other))
        .collect()
}

/// Returns the text with another last number, such as `1.28` for `1.27`; `None` without a number.
fn counted(text: &str, by: i64) -> Option<String> {
    let end = text.rfind(|one: char| one.is_ascii_digit())? + 1;
    let before = text[..end].trim_end_matches(|one: char| one.is_ascii_digit());
    let number: u64 = text[before.len()..end].parse().ok()?;
    let (width, next) = (end - before.len(), number.checked_add_signed(by)?);
    // A number with leading zeros keeps its width.
    Some(format!("{before}{next:0width$}{}", &text[end..]))
}

fn appended(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("{text}-2"))
}
