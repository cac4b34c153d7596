//! Machine: checks a custom resource: its schema, the resources in it, its lists, and its rules.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::names;
use super::resource::Resource;
use super::structural::Structural;
use super::validate::{quoted, validate, validate_status};
use crate::status::FieldError;

/// Refusals after which rules would not know what they look at.
const BLOCKING: &[&str] = &[
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// Checks a whole object after its metadata, whose errors are in `errors`; `old` is the stored one
/// on an update. What is only told to the author is put into `warnings`.
pub(crate) fn check(
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some(schema) = &resource.structural else {
        return;
    };
    errors.extend(validate(schema, object, old));
    embedded(schema, object, "", errors);
    lists(schema, object, old, errors);
    rules(resource, object, old, errors, warnings);
}

/// Checks an object whose status is written.
pub(crate) fn check_status(
    resource: &Resource,
    object: &Value,
    old: &Value,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some(schema) = &resource.structural else {
        return;
    };
    if let Some(status) = object.get("status") {
        errors.extend(validate_status(schema, status, old.get("status")));
    }
    lists(schema, object, Some(old), errors);
    rules(resource, object, Some(old), errors, warnings);
}

fn rules(
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some(rules) = &resource.rules else {
        return;
    };
    if errors.iter().any(|error| BLOCKING.contains(&error.reason)) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", "null", detail));
        return;
    }
    let verdict = rules.validate(object, old);
    errors.extend(verdict.errors);
    warnings.extend(verdict.warnings);
}

/// Lists that are sets or maps: duplicates that were there before are let be.
fn lists(schema: &Structural, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let mut found = Vec::new();
    duplicates(schema, object, "", &mut found);
    if found.is_empty() {
        return;
    }
    let mut before = Vec::new();
    if let Some(old) = old {
        duplicates(schema, old, "", &mut before);
    }
    if before.is_empty() {
        errors.extend(found);
    }
}

fn duplicates(schema: &Structural, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Value::Array(items) = value {
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let Some(key) = identity(schema, item) else {
                break;
            };
            let key = key.to_string();
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(format!("{path}[{index}]"), &key));
            } else {
                seen.insert(key);
            }
        }
    }
    below(schema, value, path, &mut |schema, value, path| {
        duplicates(schema, value, path, errors);
    });
}

/// By what an item is told apart from others; nothing in a list where it is not.
fn identity(schema: &Structural, item: &Value) -> Option<Value> {
    match schema.rules.list_type.as_str() {
        "set" => Some(item.clone()),
        "map" => {
            let mut keys = Map::new();
            for key in &schema.rules.list_map_keys {
                let default = || schema.items.as_ref()?.properties.get(key)?.default.clone();
                if let Some(value) = item.get(key).cloned().or_else(default) {
                    keys.insert(key.clone(), value);
                }
            }
            Some(Value::Object(keys))
        }
        _ => None,
    }
}

/// Visits the parts of a value with their schemas.
fn below(
    schema: &Structural,
    value: &Value,
    path: &str,
    visit: &mut dyn FnMut(&Structural, &Value, &str),
) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let (sub, path) = match (schema.properties.get(name), schema.additional.schema()) {
                    (Some(sub), _) if path.is_empty() => (sub, name.clone()),
                    (Some(sub), _) => (sub, format!("{path}.{name}")),
                    (None, Some(sub)) => (sub, format!("{path}[{name}]")),
                    (None, None) => continue,
                };
                visit(sub, member, &path);
            }
        }
        Value::Array(items) => {
            let Some(sub) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                visit(sub, item, &format!("{path}[{index}]"));
            }
        }
        _ => {}
    }
}

/// The resources that stand in an object: type and metadata.
fn embedded(schema: &Structural, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if schema.embedded
        && let Some(members) = value.as_object()
    {
        for name in ["apiVersion", "kind"] {
            let field = format!("{path}.{name}");
            match members.get(name) {
                None => errors.push(FieldError::required(field, "")),
                Some(Value::String(text)) if !text.is_empty() => {}
                Some(Value::String(text)) => {
                    errors.push(FieldError::invalid(
                        field,
                        &quoted(text),
                        "must not be empty",
                    ));
                }
                Some(other) => {
                    let detail = "must be a string";
                    errors.push(FieldError::invalid(field, &other.to_string(), detail));
                }
            }
        }
        let field = format!("{path}.metadata");
        let metadata = members.get("metadata").unwrap_or(&Value::Null);
        if let Some(labels) = metadata["labels"].as_object() {
            names::check_labels(&field, labels, errors);
        }
        if let Some(annotations) = metadata["annotations"].as_object() {
            names::check_annotations(&field, annotations, errors);
        }
    }
    below(schema, value, path, &mut |schema, value, path| {
        embedded(schema, value, path, errors);
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Vec::new();
        lists(&Structural::compile(schema), value, old, &mut errors);
        errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.message))
            .collect()
    }

    #[test]
    fn lists_of_sets_and_maps_have_no_duplicates() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
            "m": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"], "items": {"type": "object",
                "properties": {"k": {}, "p": {"default": "TCP"}}}},
        }}}});
        let value =
            json!({"spec": {"s": ["x", "y", "x"], "m": [{"k": "a"}, {"k": "a", "p": "TCP"}]}});
        assert_eq!(
            told(&schema, &value, None),
            [
                "spec.m[1]: Duplicate value: {\"k\":\"a\",\"p\":\"TCP\"}",
                "spec.s[2]: Duplicate value: \"x\""
            ]
        );
        let fine = json!({"spec": {"s": ["x"]}});
        assert_eq!(told(&schema, &value, Some(&fine)).len(), 2);
        assert!(told(&schema, &value, Some(&value)).is_empty());
    }
}
