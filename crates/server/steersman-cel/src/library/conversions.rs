//! Machine: the conversions between types.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_apimachinery::go;

use super::{Cost, Row};
use crate::cost_range::{PER_CHARACTER, scaled};
use crate::run::{EvalFailure, EvalOutcome};
use crate::value::Value;
use crate::value::times;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("bool", "bool_to_bool (b)b string_to_bool (s)b",
        Cost::PerCall, |_, values| convert("bool", values, to_bool)),
    ("bytes", "bytes_to_bytes (y)y string_to_bytes (s)y",
        Cost::Values(|values| per_character(values, matches!(values, [Value::Text(_)]))), |_, values| convert("bytes", values, to_bytes)),
    ("double", "double_to_double (d)d int64_to_double (i)d string_to_double (s)d uint64_to_double (u)d",
        Cost::PerCall, |_, values| convert("double", values, to_double)),
    ("duration", "duration_to_duration (D)D int64_to_duration (i)D string_to_duration (s)D",
        Cost::PerCall, |_, values| convert("duration", values, to_duration)),
    ("int", "int64_to_int64 (i)i double_to_int64 (d)i duration_to_int64 (D)i string_to_int64 (s)i timestamp_to_int64 (T)i uint64_to_int64 (u)i",
        Cost::PerCall, |_, values| convert("int", values, to_int)),
    ("string", "string_to_string (s)s bool_to_string (b)s bytes_to_string (y)s double_to_string (d)s duration_to_string (D)s int64_to_string (i)s timestamp_to_string (T)s uint64_to_string (u)s ip_to_string (P)s cidr_to_string (C)s",
        Cost::Values(|values| per_character(values, matches!(values, [Value::Bytes(_)]))), |_, values| convert("string", values, to_text)),
    ("timestamp", "timestamp_to_timestamp (T)T int64_to_timestamp (i)T string_to_timestamp (s)T",
        Cost::PerCall, |_, values| convert("timestamp", values, to_timestamp)),
    ("uint", "uint64_to_uint64 (u)u double_to_uint64 (d)u int64_to_uint64 (i)u string_to_uint64 (s)u",
        Cost::PerCall, |_, values| convert("uint", values, to_uint)),
    ("type", "type (A)tA",
        Cost::PerCall, |_, values| Some(Ok(Value::Type(values.first()?.type_name().into())))),
    ("dyn", "to_dyn (A)*", Cost::PerCall, |_, values| Some(Ok(values.first()?.clone()))),
];

/// Returns the cost of a conversion: 1, or that of reading the characters if the conversion reads
/// them.
fn per_character(values: &[Value<'_>], reads: bool) -> u64 {
    match values.first() {
        Some(value) if reads => scaled(value.size(), PER_CHARACTER),
        _ => 1,
    }
}

/// Converts a value.
fn convert<'a>(
    name: &str,
    values: &[Value<'a>],
    to: fn(&Value<'a>) -> Option<EvalOutcome<'a>>,
) -> Option<EvalOutcome<'a>> {
    let value = values.first()?;
    let found = value.type_name();
    let unknown = || {
        Err(EvalFailure::of(format!(
            "no such overload: {name}({found})"
        )))
    };
    Some(to(value).unwrap_or_else(unknown))
}

/// Returns the failure of a conversion of a value that does not have a value of the other type.
fn unfit<'a>(value: &Value<'a>, to: &str) -> Option<EvalOutcome<'a>> {
    let from = value.type_name();
    fail(format!("type conversion error from '{from}' to '{to}'"))
}

fn fail<'a>(why: impl Into<String>) -> Option<EvalOutcome<'a>> {
    Some(Err(EvalFailure::of(why)))
}

fn to_bool<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Bool(_) => value.clone(),
        Value::Text(text) => match go::parse_bool(text) {
            Some(said) => Value::Bool(said),
            None => return unfit(value, "bool"),
        },
        _ => return None,
    }))
}

fn to_bytes<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Bytes(_) => value.clone(),
        Value::Text(text) => Value::Bytes(text.as_bytes().into()),
        _ => return None,
    }))
}

#[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
fn to_double<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Double(_) => value.clone(),
        Value::Int(number) => Value::Double(*number as f64),
        Value::Uint(number) => Value::Double(*number as f64),
        Value::Text(text) => match text.parse() {
            Ok(number) => Value::Double(number),
            Err(_) => return unfit(value, "double"),
        },
        _ => return None,
    }))
}

fn to_duration<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Duration(_) => value.clone(),
        Value::Int(_) => return unfit(value, "google.protobuf.Duration"),
        Value::Text(text) => match go::parse_duration(text) {
            Ok(nanos) => Value::Duration(nanos),
            Err(_) => return unfit(value, "google.protobuf.Duration"),
        },
        _ => return None,
    }))
}

/// The largest `double` below 2^63.
const BELOW_INT: f64 = 9_223_372_036_854_774_784.0;
const BELOW_UINT: f64 = 18_446_744_073_709_549_568.0;

#[expect(clippy::cast_possible_truncation, reason = "in the range of the type")]
fn to_int<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Int(_) => value.clone(),
        Value::Uint(number) => match i64::try_from(*number) {
            Ok(number) => Value::Int(number),
            Err(_) => return fail("integer overflow"),
        },
        Value::Double(number) if number.abs() <= BELOW_INT => Value::Int(*number as i64),
        Value::Double(_) => return fail("integer overflow"),
        Value::Duration(nanos) => Value::Int(*nanos),
        Value::Timestamp(time) => Value::Int(time.as_second()),
        Value::Text(text) => match text.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => return unfit(value, "int"),
        },
        _ => return None,
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in the range of the type"
)]
fn to_uint<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Uint(_) => value.clone(),
        Value::Int(number) => match u64::try_from(*number) {
            Ok(number) => Value::Uint(number),
            Err(_) => return fail("unsigned integer overflow"),
        },
        Value::Double(number) if (0.0..=BELOW_UINT).contains(number) => Value::Uint(*number as u64),
        Value::Double(_) => return fail("unsigned integer overflow"),
        Value::Text(text) if text.starts_with('+') => return unfit(value, "uint"),
        Value::Text(text) => match text.parse() {
            Ok(number) => Value::Uint(number),
            Err(_) => return unfit(value, "uint"),
        },
        _ => return None,
    }))
}

fn to_text<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Text(_) => value.clone(),
        Value::Bool(flag) => Value::text(flag.to_string()),
        Value::Int(number) => Value::text(number.to_string()),
        Value::Uint(number) => Value::text(number.to_string()),
        Value::Double(number) => Value::text(go::print_double(*number)),
        Value::Duration(nanos) => Value::text(times::print_duration(*nanos)),
        Value::Timestamp(time) => Value::text(time.to_string()),
        Value::Ip(address) => Value::text(address.to_string()),
        Value::Cidr(cidr) => Value::text(format!("{}/{}", cidr.address, cidr.length)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(Arc::<str>::from(text)),
            Err(_) => return fail("invalid UTF-8 in bytes, cannot convert to string"),
        },
        _ => return None,
    }))
}

fn to_timestamp<'a>(value: &Value<'a>) -> Option<EvalOutcome<'a>> {
    Some(Ok(match value {
        Value::Timestamp(_) => value.clone(),
        Value::Int(seconds) => match Timestamp::from_second(*seconds) {
            Ok(time) => Value::Timestamp(time),
            Err(_) => return fail("timestamp overflow"),
        },
        Value::Text(text) => match times::rfc3339(text) {
            Ok(time) => Value::Timestamp(time),
            Err(_) => return unfit(value, "google.protobuf.Timestamp"),
        },
        _ => return None,
    }))
}
