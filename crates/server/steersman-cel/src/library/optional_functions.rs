//! Machine: the functions of optional values.

use super::{Cost, Row};
use crate::run::EvalFailure;
use crate::value::Value;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("optional.of", "optional_of (A)oA",
        Cost::PerCall, |_, values| Some(Ok(Value::some(values.first()?.clone())))),
    ("optional.ofNonZeroValue", "optional_ofNonZeroValue (A)oA",
        Cost::PerCall, |_, values| Some(Ok(non_zero(values.first()?)))),
    ("optional.none", "optional_none ()oA", Cost::PerCall, |_, _| Some(Ok(Value::NONE))),
    ("hasValue", "optional_hasValue (oA.)b",
        Cost::PerCall, accepts!(|[Value::Optional(held)]| Ok(Value::Bool(held.is_some())))),
    ("value", "optional_value (oA.)A",
        Cost::PerCall, accepts!(|[Value::Optional(held)]| held.as_deref().cloned().ok_or_else(without_value))),
];

fn without_value() -> EvalFailure {
    EvalFailure::of("optional.none() dereference")
}

fn non_zero<'a>(value: &Value<'a>) -> Value<'a> {
    if is_zero(value) {
        Value::NONE
    } else {
        Value::some(value.clone())
    }
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) | Value::Duration(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        other => other.size() == 0,
    }
}
