//! Machine: the functions that convert a value to another type, such as `int(…)`.

use jiff::Timestamp;
use steersman_apimachinery::go;

use super::operators::{int, uint};
use super::{Cost, Row};
use crate::cost_range::{PER_CHARACTER, scaled};
use crate::run::{EvalFailure, EvalOutcome};
use crate::types::Type;
use crate::value::Value;
use crate::value::times;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("bool", "bool_to_bool (b)b string_to_bool (s)b",
        Cost::PerCall, |_, values| convert("bool", values, to_bool)),
    ("bytes", "bytes_to_bytes (y)y string_to_bytes (s)y",
        Cost::Values(|values| per_character(values, matches!(values, [Value::Text(_)]))),
        |_, values| convert("bytes", values, to_bytes)),
    ("double", "double_to_double (d)d int64_to_double (i)d string_to_double (s)d uint64_to_double (u)d",
        Cost::PerCall, |_, values| convert("double", values, to_double)),
    ("duration", "duration_to_duration (D)D int64_to_duration (i)D string_to_duration (s)D",
        Cost::PerCall, |_, values| convert("duration", values, to_duration)),
    ("int", "int64_to_int64 (i)i double_to_int64 (d)i duration_to_int64 (D)i string_to_int64 (s)i timestamp_to_int64 (T)i uint64_to_int64 (u)i",
        Cost::PerCall, |_, values| convert("int", values, to_int)),
    ("string", "string_to_string (s)s bool_to_string (b)s bytes_to_string (y)s double_to_string (d)s duration_to_string (D)s int64_to_string (i)s timestamp_to_string (T)s uint64_to_string (u)s ip_to_string (P)s cidr_to_string (C)s",
        Cost::Values(|values| per_character(values, matches!(values, [Value::Bytes(_)]))),
        |_, values| convert("string", values, to_text)),
    ("timestamp", "timestamp_to_timestamp (T)T int64_to_timestamp (i)T string_to_timestamp (s)T",
        Cost::PerCall, |_, values| convert("timestamp", values, to_timestamp)),
    ("uint", "uint64_to_uint64 (u)u double_to_uint64 (d)u int64_to_uint64 (i)u string_to_uint64 (s)u",
        Cost::PerCall, |_, values| convert("uint", values, to_uint)),
    ("type", "type (A)tA",
        Cost::PerCall, |_, values| Some(Ok(Value::Type(values.first()?.type_name().into())))),
    ("dyn", "to_dyn (A)*", Cost::PerCall, |_, values| Some(Ok(values.first()?.clone()))),
];

/// Returns the cost of a conversion: by the characters of the value if the conversion `reads` them, otherwise 1.
fn per_character(values: &[Value<'_>], reads: bool) -> u64 {
    match values.first() {
        Some(value) if reads => scaled(value.size(), PER_CHARACTER),
        _ => 1,
    }
}

fn convert<'a>(
    name: &str,
    values: &[Value<'a>],
    to: fn(&Value<'a>) -> EvalOutcome<'a>,
) -> Option<EvalOutcome<'a>> {
    let value = values.first()?;
    Some(to(value).map_err(|failure| {
        if failure == EvalFailure::overload() {
            return EvalFailure::of(format!("no such overload: {name}({})", value.type_name()));
        }
        failure
    }))
}

/// Returns the failure that a value cannot be converted to the type `to`.
fn unfit(value: &Value<'_>, to: &str) -> EvalFailure {
    let from = value.type_name();
    EvalFailure::of(format!("type conversion error from '{from}' to '{to}'"))
}

/// Parses a text with Rust's parser of `T`, for a conversion to the CEL type `name`.
fn parsed<'a, T: std::str::FromStr>(
    value: &Value<'a>,
    text: &str,
    name: &str,
    make: fn(T) -> Value<'a>,
) -> EvalOutcome<'a> {
    text.parse().map(make).map_err(|_| unfit(value, name))
}

fn to_bool<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::Text(text) => {
            let flag = go::parse_bool(text).map(Value::Bool);
            flag.ok_or_else(|| unfit(value, "bool"))
        }
        _ => Err(EvalFailure::overload()),
    }
}

fn to_bytes<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        Value::Text(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(EvalFailure::overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "what the conversion is")]
fn to_double<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::Text(text) => parsed(value, text, "double", Value::Double),
        _ => Err(EvalFailure::overload()),
    }
}

fn to_duration<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    let unfit = || unfit(value, Type::Duration.name());
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::Int(_) => Err(unfit()),
        Value::Text(text) => {
            let nanos = go::parse_duration(text).map(Value::Duration);
            nanos.map_err(|_| unfit())
        }
        _ => Err(EvalFailure::overload()),
    }
}

/// The largest `double` that is less than 2^63. Larger doubles do not fit into an `int`.
const BELOW_INT: f64 = 9_223_372_036_854_774_784.0;
const BELOW_UINT: f64 = 18_446_744_073_709_549_568.0;

#[expect(clippy::cast_possible_truncation, reason = "in the range of the type")]
fn to_int<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => int(i64::try_from(*number).ok()),
        Value::Double(number) => int((number.abs() <= BELOW_INT).then_some(*number as i64)),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(time) => Ok(Value::Int(time.as_second())),
        Value::Text(text) => parsed(value, text, "int", Value::Int),
        _ => Err(EvalFailure::overload()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in the range of the type"
)]
fn to_uint<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => uint(u64::try_from(*number).ok()),
        Value::Double(number) => {
            let is_within = (0.0..=BELOW_UINT).contains(number);
            uint(is_within.then_some(*number as u64))
        }
        Value::Text(text) if text.starts_with('+') => Err(unfit(value, "uint")),
        Value::Text(text) => parsed(value, text, "uint", Value::Uint),
        _ => Err(EvalFailure::overload()),
    }
}

fn to_text<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    Ok(match value {
        Value::Text(_) => value.clone(),
        Value::Bool(flag) => Value::text(flag.to_string()),
        Value::Int(number) => Value::text(number.to_string()),
        Value::Uint(number) => Value::text(number.to_string()),
        Value::Double(number) => Value::text(go::print_double(*number)),
        Value::Duration(nanos) => Value::text(times::print_duration(*nanos)),
        Value::Timestamp(time) => Value::text(time.to_string()),
        Value::Ip(address) => Value::text(address.to_string()),
        Value::Cidr(cidr) => Value::text(format!("{}/{}", cidr.address, cidr.length)),
        Value::Bytes(bytes) => {
            let why = "invalid UTF-8 in bytes, cannot convert to string";
            Value::text(std::str::from_utf8(bytes).map_err(|_| EvalFailure::of(why))?)
        }
        _ => return Err(EvalFailure::overload()),
    })
}

fn to_timestamp<'a>(value: &Value<'a>) -> EvalOutcome<'a> {
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => {
            let time = Timestamp::from_second(*seconds).map(Value::Timestamp);
            time.map_err(|_| EvalFailure::of("timestamp overflow"))
        }
        Value::Text(text) => {
            let time = times::rfc3339(text).map(Value::Timestamp);
            time.map_err(|_| unfit(value, Type::Timestamp.name()))
        }
        _ => Err(EvalFailure::overload()),
    }
}
