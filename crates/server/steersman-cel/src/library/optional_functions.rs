//! Machine: the functions of optional values.

use super::{Cost, Row};
use crate::run::{EvalFailure, EvalOutcome, Run};
use crate::value::Value;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("optional.of", "optional_of (A)oA",
        Cost::PerCall, |_, values| Some(Ok(Value::some(values.first()?.clone())))),
    ("optional.ofNonZeroValue", "optional_ofNonZeroValue (A)oA", Cost::PerCall, of_non_zero_value),
    ("optional.none", "optional_none ()oA", Cost::PerCall, |_, _| Some(Ok(Value::NONE))),
    ("hasValue", "optional_hasValue (oA.)b", Cost::PerCall, has_value),
    ("value", "optional_value (oA.)A", Cost::PerCall, value),
];

fn of_non_zero_value<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let value = values.first()?;
    Some(Ok(if is_zero(value) {
        Value::NONE
    } else {
        Value::some(value.clone())
    }))
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

fn has_value<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [Value::Optional(held)] = values else {
        return None;
    };
    Some(Ok(Value::Bool(held.is_some())))
}

fn value<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [Value::Optional(held)] = values else {
        return None;
    };
    let held = held.as_ref().map(|held| (**held).clone());
    Some(held.ok_or_else(|| EvalFailure::of("optional.none() dereference")))
}
