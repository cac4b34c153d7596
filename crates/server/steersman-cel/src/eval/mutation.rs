//! Machine: converts the objects that expressions of mutating policies return to apply configurations and JSON patches.
//!
//! Kubernetes source: `apiserver/pkg/cel/mutation`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value as Json};

use crate::run::{EvalFailure, EvalOutcome};
use crate::value::printing;
use crate::value::{MapKey, Message, Value};

const OPERATION: &str = "JSONPatch";

pub(crate) fn made<'a>(name: &str, fields: BTreeMap<String, Value<'a>>) -> EvalOutcome<'a> {
    if name == OPERATION {
        for (field, value) in &fields {
            if field != "value" && !matches!(value, Value::Text(_)) {
                let found = value.type_name();
                let why = format!("unexpected type {found} for JSONPatchType '{field}' field");
                return Err(EvalFailure::Error(why));
            }
        }
    }
    let name = name.to_owned();
    Ok(Value::Message(Arc::new(Message { name, fields })))
}

/// Converts the value of an `applyConfiguration` expression to JSON, which is then applied like a server-side apply.
///
/// # Errors
/// Fails if an object in the value has another type than its field requires, and for a value without a JSON form.
pub fn configuration(value: &Value<'_>) -> Result<Json, String> {
    fits(value, "Object").map_err(|why| format!("type mismatch: {why}"))?;
    json(value)
}

/// Converts the value of a `jsonPatch` expression, a list of `JSONPatch` objects, to the operations of a JSON patch.
///
/// # Errors
/// Fails for a value that is no list of `JSONPatch` objects, and for a value without a JSON form.
pub fn operations(value: &Value<'_>) -> Result<Vec<Json>, String> {
    let mut operations = Vec::new();
    for one in value.items()? {
        let Value::Message(message) = &one else {
            let found = one.type_name();
            return Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {found}"
            ));
        };
        if let Some(value @ Value::Message(object)) = message.fields.get("value") {
            fits(value, &object.name).map_err(|why| format!("type mismatch: {why}"))?;
        }
        let mut operation = Map::new();
        for field in ["op", "path", "from", "value"] {
            let Some(value) = message.fields.get(field) else {
                if matches!(field, "op" | "path") {
                    operation.insert(field.to_owned(), Json::from(""));
                }
                continue;
            };
            let refused =
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON";
            let encoded = json(value).map_err(|why| format!("{refused}: {why}"))?;
            operation.insert(field.to_owned(), encoded);
        }
        operations.push(Json::Object(operation));
    }
    Ok(operations)
}

/// Checks the type of each object in a value: the field `spec` of an `Object` must be an `Object.spec`, and so on.
fn fits(value: &Value<'_>, place: &str) -> Result<(), String> {
    match value {
        Value::Message(message) => {
            let found = &message.name;
            if found != place {
                return Err(format!(
                    "unexpected type name \"{found}\", expected \"{place}\", which matches field name path from root Object type"
                ));
            }
            for (name, field) in &message.fields {
                fits(field, &format!("{place}.{name}"))?;
            }
            Ok(())
        }
        Value::List(items) => items.iter().try_for_each(|item| fits(item, place)),
        Value::Map(entries) => entries.values().try_for_each(|value| fits(value, place)),
        _ => Ok(()),
    }
}

fn json(value: &Value<'_>) -> Result<Json, String> {
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Double(number) => {
            let number = Number::from_f64(*number);
            Json::Number(number.ok_or("the number is not finite")?)
        }
        Value::Text(text) => Json::from(&**text),
        Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
        Value::Duration(_) | Value::Timestamp(_) => Json::from(printing::print(value)?),
        Value::Optional(Some(held)) => json(held)?,
        Value::JsonList(items, _) => Json::Array(items.to_vec()),
        Value::JsonMap(members, _) => Json::Object((*members).clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(entries) => {
            let mut members = Map::new();
            for (key, value) in &**entries {
                let MapKey::Text(name) = key else {
                    return Err(format!("map key {key:?} is no string"));
                };
                members.insert(name.to_string(), json(value)?);
            }
            Json::Object(members)
        }
        Value::Message(message) => {
            let mut members = Map::new();
            for (name, value) in &message.fields {
                members.insert(name.clone(), json(value)?);
            }
            Json::Object(members)
        }
        other => {
            let found = other.type_name();
            return Err(format!("unsupported conversion of {found} to JSON"));
        }
    })
}
