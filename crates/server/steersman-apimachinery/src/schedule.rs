//! Words: the schedules of CronJobs, parsed as `robfig/cron` does for the CronJob controller.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::zones::zone;
use crate::go;

/// One of the five fields of a schedule: its bounds, and the names of its numbers.
struct FieldBounds {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [FieldBounds; 5] = [
    bounds(0, 59, &[]),
    bounds(0, 23, &[]),
    bounds(1, 31, &[]),
    bounds(1, 12, MONTHS),
    bounds(0, 6, WEEKDAYS),
];

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const fn bounds(least: u32, most: u32, names: &'static [&'static str]) -> FieldBounds {
    FieldBounds { least, most, names }
}

/// The descriptors, such as `@daily`, with the five fields that they stand for.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The number of days that are searched for the next time of a schedule: five years.
const FAR: usize = 5 * 366;

/// A schedule of a CronJob.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The time zone in the text of the schedule (`TZ=…`), if the text names one.
    pub zone: Option<TimeZone>,
    when: Recurrence,
}

#[derive(Debug, Clone, PartialEq)]
enum Recurrence {
    /// The allowed minutes, hours, days of the month, months and days of the week, each as bits.
    Fields([Set; 5]),
    /// The number of seconds between two times of the schedule.
    Every(i64),
}

/// The values that a field of a schedule allows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Set {
    bits: u64,
    /// Whether the field is a star, which changes the meaning of the two day fields together.
    star: bool,
}

impl Set {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits >> number & 1 == 1)
    }
}

impl Schedule {
    /// Parses the text of a CronJob's schedule.
    ///
    /// # Errors
    /// Fails with the message of `robfig/cron` if the text is no schedule.
    pub fn parse(schedule: &str) -> Result<Self, String> {
        let (mut rest, mut own) = (schedule, None);
        if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            let Some((name, after)) = schedule.split_once(' ') else {
                return Err(format!("provided bad location : {schedule}"));
            };
            let name = name.split_once('=').map_or("", |(_, name)| name);
            let found = match name {
                "Local" | "" => Some(TimeZone::UTC),
                name => zone(name),
            };
            let unknown = || format!("provided bad location {name}: unknown time zone {name}");
            own = Some(found.ok_or_else(unknown)?);
            rest = after.trim();
        }
        let when = if rest.starts_with('@') {
            descriptor(rest)?
        } else {
            Recurrence::Fields(fields(rest)?)
        };
        Ok(Self { zone: own, when })
    }

    /// Returns the first time of the schedule after `after`, in a time zone; `None` if there is none within five years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let second = Timestamp::from_second(after.as_second()).ok()?;
        let fields = match &self.when {
            Recurrence::Every(seconds) => {
                return second.checked_add(SignedDuration::from_secs(*seconds)).ok();
            }
            Recurrence::Fields(fields) => fields,
        };
        let [minutes, hours, ..] = *fields;
        // The search continues in whole minutes of the time zone. A local time that the clock skips is never due, and a
        // local time that the clock repeats is due twice.
        let local = second.to_zoned(zone.clone());
        let left = SignedDuration::from_secs(60 - i64::from(local.second()));
        let mut at = second.checked_add(left).ok()?;
        let mut days = 0;
        while days <= FAR {
            let local = at.to_zoned(zone.clone());
            let left = if !is_day(fields, local.datetime()) {
                days += 1;
                let next = local.tomorrow().and_then(|next| next.start_of_day());
                at = next.ok()?.timestamp();
                continue;
            } else if !hours.has(local.hour()) {
                60 - i64::from(local.minute())
            } else if !minutes.has(local.minute()) {
                1
            } else {
                return Some(at);
            };
            at = at.checked_add(left.minutes()).ok()?;
        }
        None
    }
}

/// Returns whether a day matches both day fields, or one of them if both are restricted.
fn is_day(fields: &[Set; 5], at: DateTime) -> bool {
    let [_, _, day, month, weekday] = *fields;
    let of_month = day.has(at.day());
    let of_week = weekday.has(at.weekday().to_sunday_zero_offset());
    let fits = if day.star || weekday.star {
        of_month && of_week
    } else {
        of_month || of_week
    };
    month.has(at.month()) && fits
}

fn fields(text: &str) -> Result<[Set; 5], String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            words.len(),
            words.join(" ")
        ));
    }
    let mut sets = [Set::default(); 5];
    for ((word, field), set) in words.iter().zip(&FIELDS).zip(&mut sets) {
        for part in word.split(',').filter(|part| !part.is_empty()) {
            let found = range(part, field)?;
            set.bits |= found.bits;
            set.star |= found.star;
        }
    }
    Ok(sets)
}

fn descriptor(text: &str) -> Result<Recurrence, String> {
    if let Some((_, plain)) = DESCRIPTORS.iter().find(|(name, _)| *name == text) {
        return Ok(Recurrence::Fields(fields(plain)?));
    }
    if let Some(duration) = text.strip_prefix("@every ") {
        let nanos = go::parse_duration(duration)
            .map_err(|why| format!("failed to parse duration {text}: {why}"))?;
        // An interval is a whole number of seconds, at least one.
        return Ok(Recurrence::Every((nanos / 1_000_000_000).max(1)));
    }
    Err(format!("unrecognized descriptor: {text}"))
}

/// Parses one part of a field between commas: a number, a range or a step.
fn range(text: &str, field: &FieldBounds) -> Result<Set, String> {
    let (span, step) = match text.split_once('/') {
        None => (text, None),
        Some((_, step)) if step.contains('/') => {
            return Err(format!("too many slashes: {text}"));
        }
        Some((span, step)) => (span, Some(step)),
    };
    let limits: Vec<&str> = span.split('-').collect();
    let all = matches!(limits[0], "*" | "?");
    let (start, mut end) = if all {
        (field.least, field.most)
    } else {
        let start = number(limits[0], field)?;
        match limits.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number(end, field)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let width = step.map_or(Ok(1), plain)?;
    // A step that starts at a single number extends to the last value of the field.
    if step.is_some() && !all && limits.len() == 1 {
        end = field.most;
    }
    let FieldBounds { least, most, .. } = field;
    let wrong = if width == 0 {
        "step of range should be a positive number".to_owned()
    } else if start < *least {
        format!("beginning of range ({start}) below minimum ({least})")
    } else if end > *most {
        format!("end of range ({end}) above maximum ({most})")
    } else if start > end {
        format!("beginning of range ({start}) beyond end of range ({end})")
    } else {
        String::new()
    };
    if !wrong.is_empty() {
        return Err(format!("{wrong}: {text}"));
    }
    let numbers = (start..=end).step_by(usize::try_from(width).unwrap_or(usize::MAX));
    let bits = numbers.fold(0, |bits, number| bits | 1 << number);
    Ok(Set {
        bits,
        // A star with a step restricts the days, as numbers do.
        star: all && width == 1,
    })
}

fn number(text: &str, field: &FieldBounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match field.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(field.least + u32::try_from(at).unwrap_or_default()),
        None => plain(text),
    }
}

fn plain(text: &str) -> Result<u32, String> {
    let failed = |why: &str| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")
    };
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            Err(failed("value out of range"))
        }
        Err(_) => Err(failed("invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        for good in [
            "*/5 * * * *", "@hourly", "@every 1h30m", "0 0 1 JAN mon-fri", "1,2,3-5/2 ? 31 12 6",
            "5/10 * * * *",
        ] {
            assert!(Schedule::parse(good).is_ok(), "{good}");
        }
        for (every, seconds) in [("90.5s", 90), ("10ms", 1), ("-1h", 1)] {
            let schedule = Schedule::parse(&format!("@every {every}")).unwrap();
            assert_eq!(schedule.when, Recurrence::Every(seconds), "{every}");
        }
        for (bad, why) in [
            (
                "@every 5",
                "failed to parse duration @every 5: time: missing unit in duration \"5\"",
            ),
            (
                "every day",
                "expected exactly 5 fields, found 2: [every day]",
            ),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(Schedule::parse(bad), Err(why.to_owned()), "{bad}");
        }
    }

    fn times(schedule: &str, zone_name: &str, after: &str, many: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule).unwrap();
        let zone = zone(zone_name).unwrap();
        let mut at: Timestamp = after.parse().unwrap();
        let mut found = Vec::new();
        for _ in 0..many {
            let Some(next) = schedule.next(at, &zone) else {
                break;
            };
            found.push(next.to_string());
            at = next;
        }
        found
    }

    #[test]
    fn the_next_time_matches_all_fields() {
        for (schedule, after, expected) in [
            (
                "*/20 * * * *",
                "2026-01-01T00:00:30.5Z",
                ["2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z"],
            ),
            (
                "30 6-16/4 * * 1-5",
                "2026-01-02T12:00:00Z",
                ["2026-01-02T14:30:00Z", "2026-01-05T06:30:00Z"],
            ),
            (
                "0 0 29 2 *",
                "2026-01-01T00:00:00Z",
                ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
            ),
            // If both day fields are restricted, a day must match only one of them. A star with a step is a
            // restriction.
            (
                "0 0 13 * fri",
                "2026-01-01T00:00:00Z",
                ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"],
            ),
            (
                "0 0 */30 * 1",
                "2026-01-01T00:00:00Z",
                ["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"],
            ),
            (
                "@weekly",
                "2026-01-01T00:00:00Z",
                ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
            ),
            (
                "@every 90m",
                "2026-01-01T00:00:01.7Z",
                ["2026-01-01T01:30:01Z", "2026-01-01T03:00:01Z"],
            ),
        ] {
            assert_eq!(times(schedule, "UTC", after, 2), expected, "{schedule}");
        }
        assert!(times("59 23 31 2 *", "UTC", "2026-01-01T00:00:00Z", 1).is_empty());
    }

    #[test]
    fn skipped_local_times_are_skipped_and_repeated_ones_are_due_twice() {
        // In Berlin, the clock skips 2:30 on the 29th of March, and repeats 2:30 on the 25th of October.
        assert_eq!(
            times("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 2),
            ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]
        );
        assert_eq!(
            times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3),
            [
                "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"
            ]
        );
        assert_eq!(
            times("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1),
            ["2026-01-01T03:30:00Z"]
        );
    }
}
