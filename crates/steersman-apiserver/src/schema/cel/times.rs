//! Words: durations and times as expressions read and write them.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::schema::zones;

/// Nanoseconds of the units that a duration is written in.
const UNITS: &[(&str, i64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration as Go does, in nanoseconds.
///
/// # Errors
/// Go's words about a text that is none.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let refused = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(refused());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(refused());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let Some((_, nanos)) = UNITS.iter().find(|(known, _)| *known == unit) else {
            return Err(format!("time: unknown unit {unit:?} in duration {text:?}"));
        };
        let whole = whole.trim_start_matches('0');
        if whole.len() > 19 {
            return Err(refused());
        }
        total += whole.parse::<i128>().unwrap_or_default() * i128::from(*nanos);
        // What is smaller than a nanosecond falls away.
        let mut part = i128::from(*nanos);
        for digit in fraction.bytes().take(18) {
            part /= 10;
            total += part * i128::from(digit - b'0');
        }
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map_err(|_| refused())
}

/// Reads a time: RFC 3339, or a date, which begins at midnight.
///
/// # Errors
/// Go's words about a text that is none.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() == 10
    {
        let midnight = date.to_zoned(TimeZone::UTC);
        return midnight
            .map(|zoned| zoned.timestamp())
            .map_err(|error| error.to_string());
    }
    rfc3339(text)
}

/// Reads a time of RFC 3339.
///
/// # Errors
/// Go's words about a text that is none.
pub(crate) fn rfc3339(text: &str) -> Result<Timestamp, String> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 20
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && matches!(bytes[10], b'T')
        && bytes[13] == b':'
        && bytes[16] == b':';
    let parsed = text.parse::<Timestamp>().ok().filter(|_| shaped);
    parsed.ok_or_else(|| {
        let layout = "2006-01-02T15:04:05Z07:00";
        format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")
    })
}

/// A duration as `string(…)` writes it.
#[expect(
    clippy::cast_precision_loss,
    reason = "written as a float, as upstream does"
)]
pub(crate) fn print_duration(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}

/// A part of a time, counted as Go counts it; nothing where there is no such part.
///
/// # Errors
/// A zone that is not known.
pub(crate) fn part(name: &str, time: Timestamp, zone: Option<&str>) -> Result<Option<i64>, String> {
    let zone = zone.map_or(Ok(TimeZone::UTC), offset)?;
    let at = time.to_zoned(zone);
    Ok(Some(match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return Ok(None),
    }))
}

/// A zone: `UTC`, an offset such as `+01:30`, or the name of one.
fn offset(zone: &str) -> Result<TimeZone, String> {
    if matches!(zone, "UTC" | "" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let read = || {
        let (sign, rest) = match zone.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, zone.strip_prefix('+').unwrap_or(zone)),
        };
        let (hours, minutes) = rest.split_once(':')?;
        let hours: i32 = hours.parse().ok().filter(|hours| *hours < 24)?;
        let minutes: i32 = minutes.parse().ok().filter(|minutes| *minutes < 60)?;
        let seconds = sign * (hours * 3600 + minutes * 60);
        Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
    };
    read()
        .or_else(|| zones::zone(zone))
        .ok_or_else(|| format!("unknown time zone {zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("1h2m3.5s", 3_723_500_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("100ms", 100_000_000),
            ("0", 0),
            (".5s", 500_000_000),
            ("1.05s", 1_050_000_000),
            ("1.000000001s", 1_000_000_001),
            ("3us4ns", 3_004),
        ] {
            assert_eq!(duration(text), Ok(nanos), "{text}");
        }
        for text in ["", "1", "s", "1x", "1h-2m", "99999999999h", "one"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(print_duration(3_723_500_000_000), "3723.5s");
    }

    #[test]
    fn parts_of_a_time() {
        let time = timestamp("2024-03-10T23:30:15.25Z").unwrap();
        let told = |name: &str, zone| part(name, time, zone).unwrap().unwrap();
        assert_eq!(told("getFullYear", None), 2024);
        assert_eq!(told("getMonth", None), 2);
        assert_eq!(told("getDate", Some("+01:00")), 11);
        assert_eq!(told("getDayOfWeek", None), 0);
        assert_eq!(told("getMilliseconds", None), 250);
        assert_eq!(told("getHours", Some("America/New_York")), 19);
        assert_eq!(told("getDate", Some("Asia/Tokyo")), 11);
        assert!(part("getDate", time, Some("asia/tokyo")).is_err());
        assert!(part("getDate", time, Some("Nowhere/Town")).is_err());
        assert!(timestamp("2024-03-10").is_ok());
        assert!(rfc3339("2024-03-10").is_err());
        assert!(rfc3339("yesterday").is_err());
    }
}
