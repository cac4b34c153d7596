//! Words: the values that go-yaml decodes, in JSON and in Go's syntax.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{go, json};

/// A value as go-yaml decodes it. Values of different types are different keys of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GoValue {
    Null,
    Bool(bool),
    Int(i64),
    /// An unsigned number that does not fit into `Int`.
    Uint(u64),
    /// The bits of a floating-point number, which make values comparable.
    Float(u64),
    Text(String),
    List(Vec<Self>),
    Map(BTreeMap<Self, Self>),
}

impl GoValue {
    pub(super) fn float(number: f64) -> Self {
        Self::Float(number.to_bits())
    }

    /// Returns the key of a JSON object that a value becomes: `convertToJSONableObject` of `sigs.k8s.io/yaml`. A null,
    /// and a number beyond `int`, become none.
    fn key(&self) -> Option<String> {
        match self {
            Self::Null | Self::Uint(_) | Self::List(_) | Self::Map(_) => None,
            Self::Bool(flag) => Some(flag.to_string()),
            Self::Int(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Float(bits) => {
                #[expect(clippy::cast_possible_truncation, reason = "as in Go")]
                let number = f64::from_bits(*bits) as f32;
                Some(match go::print_float(number).as_str() {
                    "+Inf" => ".inf".to_owned(),
                    "-Inf" => "-.inf".to_owned(),
                    "NaN" => ".nan".to_owned(),
                    text => text.to_owned(),
                })
            }
        }
    }
}

/// Returns a value as JSON, and stores the first number that JSON does not have in `unsupported`.
pub(super) fn jsonable(value: &GoValue, unsupported: &mut Option<f64>) -> Result<Value, String> {
    Ok(match value {
        GoValue::Null => Value::Null,
        GoValue::Bool(flag) => (*flag).into(),
        GoValue::Int(number) => (*number).into(),
        GoValue::Uint(number) => (*number).into(),
        GoValue::Float(bits) => {
            let number = f64::from_bits(*bits);
            if !number.is_finite() {
                unsupported.get_or_insert(number);
            }
            // Go's encoder writes a float without a fraction as an integer.
            let mut value = number.into();
            json::write_whole(&mut value);
            value
        }
        GoValue::Text(text) => text.as_str().into(),
        GoValue::List(items) => {
            let deeper =
                |item| stacker::maybe_grow(128 << 10, 1 << 20, || jsonable(item, unsupported));
            let items = items.iter().map(deeper);
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        GoValue::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let Some(text) = key.key() else {
                    let (kind, key) = match key {
                        GoValue::Uint(number) => ("uint64", format!("{number:#x}")),
                        _ => ("%!s(<nil>)", "<nil>".to_owned()),
                    };
                    let value = match value {
                        GoValue::Null => "<nil>".to_owned(),
                        value => go_syntax(value),
                    };
                    return Err(format!(
                        "unsupported map key of type: {kind}, key: {key}, value: {value}"
                    ));
                };
                let deeper = || jsonable(value, unsupported);
                let value = stacker::maybe_grow(128 << 10, 1 << 20, deeper)?;
                map.insert(text, value);
            }
            Value::Object(map)
        }
    })
}

/// Prints a value as Go's `%#v` does.
pub(super) fn go_syntax(value: &GoValue) -> String {
    match value {
        GoValue::Null => "interface {}(nil)".to_owned(),
        GoValue::Bool(flag) => flag.to_string(),
        GoValue::Int(number) => number.to_string(),
        GoValue::Uint(number) => format!("{number:#x}"),
        GoValue::Float(bits) => go::print_double(f64::from_bits(*bits)),
        GoValue::Text(text) => go::quote(text),
        GoValue::List(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        GoValue::Map(entries) => {
            let mut text = "map[interface {}]interface {}{".to_owned();
            for (number, (key, value)) in entries.iter().enumerate() {
                let comma = if number > 0 { ", " } else { "" };
                let key = go_syntax(key);
                // Writing to a `String` does not fail.
                let _ = write!(text, "{comma}{key}:{}", go_syntax(value));
            }
            text + "}"
        }
    }
}
