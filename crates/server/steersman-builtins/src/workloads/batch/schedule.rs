//! Machine: checks the schedule and the time zone of a CronJob.

use serde_json::Value;
use steersman_apimachinery::schedule::Schedule;
use steersman_apimachinery::zones;

use crate::fields::{FieldPath, check};

/// Checks the schedule, the time zone and the deadline of a spec; `old` is the stored one.
pub(super) fn check(spec: &FieldPath<'_>, old: Option<&Value>) {
    let (when, zone) = (spec.at("schedule"), spec.at("timeZone"));
    if when.is_empty() {
        when.required("");
    } else {
        let text = when.text();
        if let Err(why) = Schedule::parse(text) {
            when.invalid(&why);
        }
        let before = old.and_then(|old| old["schedule"].as_str());
        let allowed = before.is_some_and(|before| before.contains("TZ"));
        if text.contains("TZ") && !allowed {
            when.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if text.contains("TZ") && zone.is_set() {
            when.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
    check::not_negative(&spec.at("startingDeadlineSeconds"));
    if old.is_none_or(|old| old["timeZone"] != *zone.value()) {
        check_zone(&zone);
    }
}

/// Checks a time zone. Upstream: `validateTimeZone`.
fn check_zone(zone: &FieldPath<'_>) {
    if !zone.is_set() {
        return;
    }
    let text = zone.text();
    if text.is_empty() {
        return zone.invalid("timeZone must be nil or non-empty string");
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
        return zone.invalid(&unknown);
    }
    if text.eq_ignore_ascii_case("Local") {
        let detail =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.invalid(detail);
    }
    if text != "Local" && zones::zone(text).is_none() {
        zone.invalid(&unknown);
    }
}
