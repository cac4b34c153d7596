//! Machine: normalizes definitions, so that equal definitions are equal JSON values.

use serde_json::{Map, Value};

/// Schema fields that hold example values, in which `false` and an empty list are meaningful.
const VALUES: [&str; 3] = ["default", "enum", "example"];

/// Returns a normalized value: without members that are null, false or an empty list, and with whole floats as
/// integers.
pub(crate) fn normalized(value: &Value) -> Value {
    let is_absent = |value: &Value| {
        value.is_null() || *value == false || value.as_array().is_some_and(Vec::is_empty)
    };
    match value {
        Value::Object(members) => {
            let mut normal = Map::new();
            for (name, value) in members {
                if VALUES.contains(&name.as_str()) && !value.is_null() {
                    normal.insert(name.clone(), value.clone());
                    continue;
                }
                // Each member is normalized once: twice would double the time at each level of a schema.
                let value = normalized(value);
                if !is_absent(&value) {
                    normal.insert(name.clone(), value);
                }
            }
            Value::Object(normal)
        }
        Value::Array(items) => Value::Array(items.iter().map(normalized).collect()),
        value => whole(value).unwrap_or_else(|| value.clone()),
    }
}

/// Returns whether `present` includes every member of `wanted`, at all levels.
pub(crate) fn has_all(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (_, Value::Null | Value::Bool(false)) if present.is_null() => true,
        (Value::Object(present), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| has_all(present.get(name).unwrap_or(&Value::Null), wanted)),
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present
                    .iter()
                    .zip(wanted)
                    .all(|(one, other)| has_all(one, other))
        }
        (present, Value::Array(wanted)) => present.is_null() && wanted.is_empty(),
        (present, wanted) => normalized(present) == normalized(wanted),
    }
}

/// Returns a whole float as an integer.
fn whole(value: &Value) -> Option<Value> {
    let float = value.as_f64().filter(|_| value.is_f64())?;
    let text = format!("{float:.0}");
    let integer: i64 = text.parse().ok()?;
    (float.fract() == 0.0).then(|| Value::from(integer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deep_schema_is_read_once_per_level() {
        // Normalizing each member twice would take 2^100 steps.
        let deep = (0..100).fold(json!({"nullable": false}), |inner, _| json!({"a": inner}));
        let shallow = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
        assert_eq!(normalized(&deep), shallow);
    }
}
