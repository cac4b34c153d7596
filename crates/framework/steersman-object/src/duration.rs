//! Words: parses durations in Go's notation, such as `30s` and `1h15m`.

use std::time::Duration;

/// The units and their lengths in nanoseconds. Longer names come first: otherwise `ms` would be read as `m`.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// Parses a duration like Go's `time.ParseDuration`, except for negative values.
///
/// # Errors
///
/// A message that states the expected notation.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || "a duration is a number with a unit, such as 500ms, 30s, 5m or 1h30m".to_owned();
    let mut rest = text;
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.ok_or_else(wrong)?);
        let unit = UNITS.iter().find(|(name, _)| after.starts_with(name));
        let (name, nanos) = unit.ok_or_else(wrong)?;
        let part = nanoseconds(number, *nanos).ok_or_else(wrong)?;
        let too_long = || "the duration is longer than 584 years".to_owned();
        let part = u64::try_from(part).map_err(|_| too_long())?;
        sum = sum
            .checked_add(Duration::from_nanos(part))
            .ok_or_else(too_long)?;
        rest = &after[name.len()..];
    }
    Ok(sum)
}

/// Returns `number * unit` in whole nanoseconds; `None` if `number` is not a decimal number.
fn nanoseconds(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let unit = u128::from(unit);
    let read = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u128>().ok(),
    };
    let whole = read(whole)?;
    // Further digits are below a nanosecond even for hours, and are cut off.
    let fraction = &fraction[..fraction.len().min(18)];
    let digits = read(fraction)?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(unit)?.checked_add(digits * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5ms", 500_000),
            ("100ms", 100_000_000),
            ("1m500us", 60_000_500_000),
            ("3µs7ns", 3_007),
            ("1.", 0),
        ] {
            let read = parse_duration(text);
            if text == "1." {
                assert!(read.is_err(), "a number needs a unit");
            } else {
                assert_eq!(read, Ok(Duration::from_nanos(nanos)), "{text}");
            }
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "5", "s", "-5s", "5 s", "5x", "1.2.3s", ".s", "1e3s", "٣s",
        ] {
            assert!(parse_duration(text).unwrap_err().contains("30s"), "{text}");
        }
        for text in ["9999999h", "99999999999999999999999999999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
