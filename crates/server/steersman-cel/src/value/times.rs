//! Words: the times and durations of expressions: parses times and time zones, and prints durations.

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use steersman_apimachinery::zones;

/// Parses a time in RFC 3339, or a date, which means midnight in UTC.
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

/// Parses an RFC 3339 time, such as `2024-03-10T23:30:15Z`. Other notations of ISO 8601 are refused.
pub(crate) fn rfc3339(text: &str) -> Result<Timestamp, String> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 20
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes[16] == b':';
    // The year 0000 is refused, because years start at 1.
    let shaped = shaped && !text.starts_with("0000");
    let parsed = text.parse::<Timestamp>().ok().filter(|_| shaped);
    parsed.ok_or_else(|| {
        let layout = "2006-01-02T15:04:05Z07:00";
        format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")
    })
}

/// Returns a duration as `string(…)` prints it: seconds with decimals, such as `1.5s`.
#[expect(
    clippy::cast_precision_loss,
    reason = "written as a float, as upstream does"
)]
pub(crate) fn print_duration(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}

/// Converts a time to a time zone; `None` is UTC. Fails for an unknown time zone.
pub(crate) fn zoned(time: Timestamp, zone: Option<&str>) -> Result<Zoned, String> {
    let zone = zone.map_or(Ok(TimeZone::UTC), offset)?;
    Ok(time.to_zoned(zone))
}

/// Parses a time zone: `UTC`, an offset such as `+01:30`, or a name such as `Europe/Berlin`.
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
    fn durations_are_printed_in_seconds() {
        assert_eq!(print_duration(3_723_500_000_000), "3723.5s");
    }

    #[test]
    fn times_are_read_in_time_zones() {
        let time = timestamp("2024-03-10T23:30:15.25Z").unwrap();
        let read = |zone| zoned(time, zone).unwrap();
        assert_eq!(read(None).hour(), 23);
        assert_eq!(read(Some("+01:00")).day(), 11);
        assert_eq!(read(Some("America/New_York")).hour(), 19);
        assert_eq!(read(Some("Asia/Tokyo")).day(), 11);
        assert!(zoned(time, Some("asia/tokyo")).is_err());
        assert!(zoned(time, Some("Nowhere/Town")).is_err());
        assert!(timestamp("2024-03-10").is_ok());
        assert!(rfc3339("2024-03-10").is_err());
        assert!(rfc3339("yesterday").is_err());
    }
}
