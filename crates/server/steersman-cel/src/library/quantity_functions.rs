//! Machine: the functions of quantities and semantic versions.

use std::cmp::Ordering;

use steersman_apimachinery::quantity::Quantity;

use super::{CHARACTERS, Cost, Row};
use crate::run::{EvalFailure, EvalOutcome};
use crate::value::Value;
use crate::value::semver::Semver;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("quantity", "string_to_quantity (s)Q",
        CHARACTERS,
        accepts!(|[Value::Text(text)]| Quantity::parse(text).map(Value::Quantity).map_err(EvalFailure::of))),
    ("isQuantity", "is_quantity_string (s)b",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::Bool(Quantity::parse(text).is_ok())))),
    ("sign", "quantity_sign (Q)i",
        Cost::PerCall,
        accepts!(|[Value::Quantity(quantity)]| Ok(Value::Int(i64::try_from(quantity.sign()).unwrap_or_default())))),
    ("isGreaterThan", "quantity_is_greater_than (Q.Q)b semver_is_greater_than (V.V)b",
        Cost::PerCall, |_, values| order(values, |order| Value::Bool(order.is_gt()))),
    ("isLessThan", "quantity_is_less_than (Q.Q)b semver_is_less_than (V.V)b",
        Cost::PerCall, |_, values| order(values, |order| Value::Bool(order.is_lt()))),
    ("compareTo", "quantity_compare_to (Q.Q)i semver_compare_to (V.V)i",
        Cost::PerCall, |_, values| order(values, |order| Value::Int(order as i64))),
    ("asApproximateFloat", "quantity_get_float (Q.)d",
        Cost::PerCall, accepts!(|[Value::Quantity(quantity)]| Ok(Value::Double(quantity.approximate())))),
    ("asInteger", "quantity_get_int (Q.)i",
        Cost::PerCall, accepts!(|[Value::Quantity(quantity)]| as_integer(*quantity))),
    ("isInteger", "quantity_is_integer (Q.)b",
        Cost::PerCall, accepts!(|[Value::Quantity(quantity)]| Ok(Value::Bool(whole(*quantity).is_some())))),
    ("add", "quantity_add (Q.Q)Q quantity_add_int (Q.i)Q",
        Cost::PerCall, |_, values| plus(values, |other| other)),
    ("sub", "quantity_sub (Q.Q)Q quantity_sub_int (Q.i)Q",
        Cost::PerCall, |_, values| plus(values, Quantity::negated)),
    ("semver", "string_to_semver (s)V string_bool_to_semver (sb)V",
        CHARACTERS,
        |_, values| of_version_text(values, |version| Ok(Value::Semver(version.map_err(EvalFailure::of)?.into())))),
    ("isSemver", "is_semver_string (s)b is_semver_string_bool (sb)b",
        CHARACTERS, |_, values| of_version_text(values, |version| Ok(Value::Bool(version.is_ok())))),
    ("major", "semver_major (V.)i",
        Cost::PerCall, accepts!(|[Value::Semver(version)]| version_part(version, 0))),
    ("minor", "semver_minor (V.)i",
        Cost::PerCall, accepts!(|[Value::Semver(version)]| version_part(version, 1))),
    ("patch", "semver_patch (V.)i",
        Cost::PerCall, accepts!(|[Value::Semver(version)]| version_part(version, 2))),
];

/// Returns a quantity as an integer; `None` for a fraction, and for `i64::MAX`, which may stand for a larger amount.
fn whole(quantity: Quantity) -> Option<i64> {
    let whole = quantity.whole();
    whole.filter(|whole| whole.unsigned_abs() < i64::MAX.unsigned_abs())
}

fn as_integer<'a>(quantity: Quantity) -> EvalOutcome<'a> {
    let whole = whole(quantity).map(Value::Int);
    whole.ok_or_else(|| EvalFailure::of("cannot convert value to integer"))
}

/// Adds the second value to a quantity; for a subtraction, `sign` negates the second value first.
fn plus<'a>(values: &[Value<'a>], sign: fn(Quantity) -> Quantity) -> Option<EvalOutcome<'a>> {
    let (quantity, other) = match values {
        [Value::Quantity(quantity), Value::Quantity(other)] => (quantity, *other),
        [Value::Quantity(quantity), Value::Int(other)] => (quantity, Quantity::of(*other)),
        _ => return None,
    };
    Some(Ok(Value::Quantity(quantity.plus(sign(other)))))
}

fn order<'a>(values: &[Value<'a>], read: fn(Ordering) -> Value<'a>) -> Option<EvalOutcome<'a>> {
    let order = match values {
        [Value::Quantity(a), Value::Quantity(b)] => a.partial_cmp(b)?,
        [Value::Semver(a), Value::Semver(b)] => a.partial_cmp(b)?,
        _ => return None,
    };
    Some(Ok(read(order)))
}

/// Parses a semantic version; `read` makes the result. If the second value is true, texts such as `v1.0` are accepted.
fn of_version_text<'a>(
    values: &[Value<'a>],
    read: fn(Result<Semver, String>) -> EvalOutcome<'a>,
) -> Option<EvalOutcome<'a>> {
    let [Value::Text(text), rest @ ..] = values else {
        return None;
    };
    let lenient = matches!(rest, [Value::Bool(true)]);
    Some(read(Semver::parse(text, lenient)))
}

fn version_part<'a>(version: &Semver, part: usize) -> EvalOutcome<'a> {
    let number = i64::try_from(version.numbers[part]);
    Ok(Value::Int(number.unwrap_or(i64::MAX)))
}
