//! Machine: the functions that return parts of times and durations, such as `getHours`.

use jiff::Zoned;

use super::{Cost, Row};
use crate::run::{EvalFailure, EvalOutcome};
use crate::value::{Value, times};

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("getFullYear", "timestamp_to_year (T.)i timestamp_to_year_with_tz (T.s)i",
        Cost::PerCall, |_, values| time_part(values, |at| i64::from(at.year()))),
    ("getMonth", "timestamp_to_month (T.)i timestamp_to_month_with_tz (T.s)i",
        Cost::PerCall, |_, values| time_part(values, |at| i64::from(at.month()) - 1)),
    ("getDayOfYear", "timestamp_to_day_of_year (T.)i timestamp_to_day_of_year_with_tz (T.s)i",
        Cost::PerCall, |_, values| time_part(values, |at| i64::from(at.day_of_year()) - 1)),
    ("getDayOfMonth", "timestamp_to_day_of_month (T.)i timestamp_to_day_of_month_with_tz (T.s)i",
        Cost::PerCall, |_, values| time_part(values, |at| i64::from(at.day()) - 1)),
    ("getDate", "timestamp_to_day_of_month_1_based (T.)i timestamp_to_day_of_month_1_based_with_tz (T.s)i",
        Cost::PerCall, |_, values| time_part(values, |at| i64::from(at.day()))),
    ("getDayOfWeek", "timestamp_to_day_of_week (T.)i timestamp_to_day_of_week_with_tz (T.s)i",
        Cost::PerCall, |_, values| time_part(values, |at| i64::from(at.weekday().to_sunday_zero_offset()))),
    ("getHours", "timestamp_to_hours (T.)i timestamp_to_hours_with_tz (T.s)i duration_to_hours (D.)i",
        Cost::PerCall,
        |_, values| duration_in(values, 3_600_000_000_000).or_else(|| time_part(values, |at| i64::from(at.hour())))),
    ("getMinutes", "timestamp_to_minutes (T.)i timestamp_to_minutes_with_tz (T.s)i duration_to_minutes (D.)i",
        Cost::PerCall,
        |_, values| duration_in(values, 60_000_000_000).or_else(|| time_part(values, |at| i64::from(at.minute())))),
    ("getSeconds", "timestamp_to_seconds (T.)i timestamp_to_seconds_with_tz (T.s)i duration_to_seconds (D.)i",
        Cost::PerCall,
        |_, values| duration_in(values, 1_000_000_000).or_else(|| time_part(values, |at| i64::from(at.second())))),
    ("getMilliseconds", "timestamp_to_milliseconds (T.)i timestamp_to_milliseconds_with_tz (T.s)i duration_to_milliseconds (D.)i",
        Cost::PerCall,
        |_, values| duration_in(values, 1_000_000).or_else(|| time_part(values, |at| i64::from(at.millisecond())))),
];

/// Returns a part of a time, such as its hour, in UTC or in the time zone that the second value names.
fn time_part<'a>(values: &[Value<'a>], part: fn(&Zoned) -> i64) -> Option<EvalOutcome<'a>> {
    let (time, zone) = match values {
        [Value::Timestamp(time)] => (*time, None),
        [Value::Timestamp(time), Value::Text(zone)] => (*time, Some(&**zone)),
        _ => return None,
    };
    let zoned = times::zoned(time, zone).map_err(EvalFailure::Error);
    Some(zoned.map(|zoned| Value::Int(part(&zoned))))
}

/// Returns the length of a duration in units of `nanos` nanoseconds, rounded towards zero.
fn duration_in<'a>(values: &[Value<'a>], nanos: i64) -> Option<EvalOutcome<'a>> {
    let [Value::Duration(duration)] = values else {
        return None;
    };
    Some(Ok(Value::Int(duration / nanos)))
}
