//! Machine: checks a custom resource: its schema, its embedded resources, its lists, and its rules.

pub(crate) mod formats;
pub(crate) mod validate;

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};
use steersman_apimachinery::names::NameRule::{self, Label, PathSegment};
use steersman_apimachinery::status::FieldError;
use steersman_apimachinery::{go, names};
use steersman_cel::structural::Structural;
use steersman_schema::resource::Resource;

use crate::fields::fill::elements;
use crate::fields::{FieldPath, Findings, check};
use validate::{validate_at, validate_status};

/// Errors after which the rules are not evaluated, because they need valid values.
const BLOCKING: &[&str] = &[
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// Checks a whole object after its metadata. `errors` contains the errors of the metadata; `old` is
/// the stored object on an update. `warnings` receives the warnings for the author.
pub fn check(
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some(schema) = resource.structural() else {
        return;
    };
    errors.extend(validate_at(schema, object, old, ""));
    scale(resource, object, true, errors);
    errors.extend(Findings::errors(object, |root| embedded(schema, root)));
    lists(schema, object, old, errors);
    rules(resource, object, old, errors, warnings);
}

/// Checks an object that is written to the status subresource.
pub fn check_status(
    resource: &Resource,
    object: &Value,
    old: &Value,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some(schema) = resource.structural() else {
        return;
    };
    if let Some(status) = object.get("status") {
        errors.extend(validate_status(schema, status, old.get("status")));
    }
    scale(resource, object, false, errors);
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
    let Some(rules) = resource.rules() else {
        return;
    };
    if errors.iter().any(|error| BLOCKING.contains(&error.reason)) {
        errors.push(FieldError::invalid("<nil>", "null", "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"));
        return;
    }
    let verdict = rules.validate(object, old);
    errors.extend(verdict.errors);
    warnings.extend(verdict.warnings);
}

/// Checks lists of type `set` and `map`. Duplicates in the old object are accepted.
fn lists(schema: &Structural, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let of = |object: &Value| Findings::errors(object, |root| duplicates(schema, root));
    let found = of(object);
    if !found.is_empty() && old.is_none_or(|old| of(old).is_empty()) {
        errors.extend(found);
    }
}

fn duplicates(schema: &Structural, value: &FieldPath<'_>) {
    let mut seen: HashMap<String, bool> = HashMap::new();
    for item in value.items() {
        let Some(key) = identity(schema, item.value()) else {
            break;
        };
        let key = key.to_string();
        match seen.get_mut(&key) {
            // Upstream reports the second of several equal items, and none after it.
            Some(is_reported) if *is_reported => {}
            Some(is_reported) => {
                *is_reported = true;
                item.duplicate_written(&key);
            }
            None => {
                seen.insert(key, false);
            }
        }
    }
    below(schema, value, duplicates);
}

/// Returns the identity of an item, or `None` if the list does not identify its items.
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

fn below<'a>(schema: &Structural, value: &FieldPath<'a>, check: fn(&Structural, &FieldPath<'a>)) {
    let members = value.value().as_object();
    for name in members.into_iter().flat_map(Map::keys) {
        match (schema.properties.get(name), schema.additional.schema()) {
            (Some(sub), _) => check(sub, &value.at(name)),
            (None, Some(sub)) => check(sub, &value.key(name)),
            (None, None) => {}
        }
    }
    if let Some(sub) = &schema.items {
        value.each(|item| check(sub, item));
    }
}

fn embedded(schema: &Structural, value: &FieldPath<'_>) {
    if schema.embedded
        && let Some(members) = value.value().as_object()
    {
        for name in ["apiVersion", "kind"] {
            if !members.contains_key(name) {
                value.at(name).required("");
            }
        }
        let [version, kind] = value.parts(["apiVersion", "kind"]);
        check_type_text(members.get("apiVersion"), &version, |version| {
            check::group_version(version);
        });
        check_type_text(members.get("kind"), &kind, check::kind);
        let mut found = Vec::new();
        embedded_metadata(value.at("metadata").value(), &mut found);
        for wrong in &mut found {
            let path = value.path();
            if !path.is_empty() {
                wrong.field = format!("{path}.{}", wrong.field);
            }
        }
        value.extend(found);
    }
    below(schema, value, embedded);
}

/// Checks the `apiVersion` or the `kind` of an embedded resource.
fn check_type_text(given: Option<&Value>, at: &FieldPath<'_>, check: fn(&FieldPath<'_>)) {
    match given {
        None => {}
        Some(Value::String(text)) if text.is_empty() => at.invalid("must not be empty"),
        Some(Value::String(_)) => check(at),
        Some(_) => at.invalid("must be a string"),
    }
}

fn embedded_metadata(metadata: &Value, errors: &mut Vec<FieldError>) {
    type Check = fn(NameRule, &str) -> Vec<String>;
    for (field, rule, check) in [
        ("generateName", PathSegment, names::check_prefix as Check),
        ("name", PathSegment, names::check_name),
        ("namespace", Label, names::check_name),
    ] {
        let text = metadata[field].as_str().unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        for why in check(rule, text) {
            let field = format!("metadata.{field}");
            errors.push(FieldError::invalid(field, &go::quote(text), &why));
        }
    }
    names::check_attached(metadata, errors);
    if let Some(finalizers) = metadata["finalizers"].as_array() {
        names::check_finalizers(finalizers, false, errors);
    }
}

/// Returns the warnings about finalizers that are new to a custom resource.
#[must_use]
pub fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let of = |object: &Value| -> BTreeSet<String> {
        elements(&object["metadata"]["finalizers"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let had = old.map(of).unwrap_or_default();
    let new = of(object);
    new.difference(&had)
        .flat_map(|one| names::finalizer_warnings(one))
        .collect()
}

/// Checks the values that the scale subresource reads: replica counts and the selector.
fn scale(resource: &Resource, object: &Value, spec: bool, errors: &mut Vec<FieldError>) {
    let Some(paths) = &resource.scale else {
        return;
    };
    if spec {
        replicas(object, &paths.spec_replicas, errors);
    }
    replicas(object, &paths.status_replicas, errors);
    if let Some(path) = &paths.selector
        && let Err(why) = nested(object, path, "string", Value::is_string)
    {
        let field = format!(".{}", path.join("."));
        errors.push(FieldError::invalid(field, "\"\"", &why));
    }
}

fn replicas(object: &Value, path: &[String], errors: &mut Vec<FieldError>) {
    let field = format!(".{}", path.join("."));
    let found = match nested(object, path, "int64", Value::is_i64) {
        Ok(found) => found.and_then(Value::as_i64).unwrap_or_default(),
        Err(why) => {
            errors.push(FieldError::invalid(field, "0", &why));
            return;
        }
    };
    let detail = if found < 0 {
        "should be a non-negative integer"
    } else if found > i64::from(i32::MAX) {
        "should be less than or equal to 2147483647"
    } else {
        return;
    };
    errors.push(FieldError::invalid(field, &found.to_string(), detail));
}

/// Returns the value at a path, and `None` for an absent value.
///
/// # Errors
/// Fails with Go's message for a value of a wrong type at the path or on the way.
fn nested<'a>(
    object: &'a Value,
    path: &[String],
    wanted: &str,
    fits: fn(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let refuse = |depth: usize, found: &Value, wanted: &str| {
        Err(format!(
            ".{} accessor error: {} is of the type {}, expected {wanted}",
            path[..depth].join("."),
            go::print(found),
            go::type_of(found)
        ))
    };
    let mut value = object;
    for (index, key) in path.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(members) => match members.get(key) {
                Some(member) => member,
                None => return Ok(None),
            },
            other => return refuse(index + 1, other, "map[string]interface{}"),
        };
    }
    if fits(value) {
        Ok(Some(value))
    } else {
        refuse(path.len(), value, wanted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Vec::new();
        lists(&Structural::compile(schema), value, old, &mut errors);
        errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.message))
            .collect()
    }

    #[test]
    fn embedded_resources_have_types_and_metadata() {
        let schema = json!({"type": "object", "properties": {"t": {"type": "object",
            "x-kubernetes-embedded-resource": true}}});
        let schema = Structural::compile(&schema);
        let value = json!({"t": {"apiVersion": "a/b/c", "kind": "Two Words", "metadata": {
            "name": "Any Name", "namespace": "a.b", "generateName": "a/", "finalizers": ["plain", ""],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]}}});
        let errors = Findings::errors(&value, |root| embedded(&schema, root));
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "t.apiVersion",
                "t.kind",
                "t.metadata.generateName",
                "t.metadata.namespace",
                "t.metadata.ownerReferences.uid",
                "t.metadata.finalizers",
                "t.metadata.finalizers",
            ]
        );
        let value = json!({"t": {"apiVersion": "", "kind": "K"}});
        let errors = Findings::errors(&value, |root| embedded(&schema, root));
        assert_eq!(errors[0].message, "Invalid value: \"\": must not be empty");
    }

    #[test]
    fn scaled_fields_must_be_replica_counts() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let messages = |object: Value| {
            let mut errors = Vec::new();
            replicas(&object, &path("spec.replicas"), &mut errors);
            errors.pop().map(|error| error.message)
        };
        assert_eq!(messages(json!({})), None);
        assert_eq!(messages(json!({"spec": {"replicas": 3}})), None);
        assert_eq!(
            messages(json!({"spec": {"replicas": -1}})).unwrap(),
            "Invalid value: -1: should be a non-negative integer"
        );
        assert_eq!(
            messages(json!({"spec": {"replicas": {"a": [1, "x"]}}})).unwrap(),
            "Invalid value: 0: .spec.replicas accessor error: map[a:[1 x]] is of the type map[string]interface {}, expected int64"
        );
        assert_eq!(
            messages(json!({"spec": 1})).unwrap(),
            "Invalid value: 0: .spec.replicas accessor error: 1 is of the type int64, expected map[string]interface{}"
        );
    }

    #[test]
    fn new_finalizers_without_a_domain_are_warned_of() {
        let object = |all: Value| json!({"metadata": {"finalizers": all}});
        let messages = warnings(
            &object(json!(["b", "a/b", "orphan", "a"])),
            Some(&object(json!(["b"]))),
        );
        assert_eq!(messages.len(), 1);
        assert!(messages[0].starts_with("metadata.finalizers: \"a\": prefer a domain-qualified"));
    }

    #[test]
    fn the_second_of_equal_items_is_reported_and_no_further_one() {
        let schema = json!({"type": "object", "properties": {
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
            "m": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"], "items": {"type": "object",
                "properties": {"k": {}, "p": {}}}},
        }});
        let value = json!({"s": ["x", "x", "x"], "m": [{"a": 1}, {}, {"a": 2}]});
        assert_eq!(
            messages(&schema, &value, None),
            ["m[1]: Duplicate value: {}", "s[1]: Duplicate value: \"x\""]
        );
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
            messages(&schema, &value, None),
            [
                "spec.m[1]: Duplicate value: {\"k\":\"a\",\"p\":\"TCP\"}",
                "spec.s[2]: Duplicate value: \"x\""
            ]
        );
        let fine = json!({"spec": {"s": ["x"]}});
        assert_eq!(messages(&schema, &value, Some(&fine)).len(), 2);
        assert!(messages(&schema, &value, Some(&value)).is_empty());
    }
}
