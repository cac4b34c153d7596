//! Machine: checks that a merged value fits its type, with the messages of Go's converter.

use serde_json::Value;
use steersman_schema::types::{Scalar, TypeRef, ValueShape};

/// Checks a value and all values below it. Null fits every type.
///
/// # Errors
/// Returns the refusal of the first value that does not fit its type.
pub fn check(value: &Value, kind: TypeRef<'_>) -> Result<(), String> {
    let found = match value {
        Value::Null => return Ok(()),
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    match (kind.shape(), value) {
        (ValueShape::Struct | ValueShape::Map, Value::Object(members)) => {
            members.iter().try_for_each(|(name, member)| {
                let kind = kind.field(name);
                // The decoder reports unknown fields later.
                kind.map_or(Ok(()), |kind| check(member, kind))
            })
        }
        (ValueShape::List, Value::Array(items)) => {
            items.iter().try_for_each(|item| check(item, kind.items()))
        }
        (ValueShape::Struct, _) => Err(format!("cannot restore struct from: {found}")),
        (ValueShape::Map, _) => Err(format!("cannot restore map from {found}")),
        (ValueShape::List, _) => Err(format!("cannot restore slice from {found}")),
        (ValueShape::Any, _) => Ok(()),
        (ValueShape::Scalar(scalar), value) => check_scalar(scalar, value, found),
    }
}

fn check_scalar(scalar: Scalar, value: &Value, found: &str) -> Result<(), String> {
    let (fits, wanted) = match scalar {
        Scalar::String => (value.is_string(), "string"),
        Scalar::Integer => {
            let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
            (whole, "int32")
        }
        Scalar::Number => (value.is_number(), "float64"),
        Scalar::Boolean => (value.is_boolean(), "bool"),
        Scalar::Bytes if !value.is_string() => {
            return Err(format!("cannot restore slice from {found}"));
        }
        // These Go types parse their JSON themselves, so the decoder reports invalid values.
        Scalar::Bytes | Scalar::Time | Scalar::Quantity | Scalar::IntOrString => (true, ""),
    };
    if fits {
        Ok(())
    } else if value.is_number() && matches!(scalar, Scalar::String | Scalar::Integer) {
        // Go can convert a number to these types, so the message for a number differs from that for other values.
        Err(format!("cannot convert {found} to {wanted}"))
    } else {
        Err(format!("unrecognized type: {wanted}"))
    }
}
