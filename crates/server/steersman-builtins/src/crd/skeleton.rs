//! Machine: checks that a schema is structural: its skeleton has types, and schemas below `allOf`
//! and the like only restrict values.

use serde_json::{Map, Value, json};
use steersman_apimachinery::go;
use steersman_apimachinery::patterns;
use steersman_apimachinery::status::FieldError;

/// Keywords that only the skeleton may have, each with the error of a nested schema that has it.
const OF_THE_SKELETON: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    ("externalDocs", "must be undefined to be structural"),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// The position of a skeleton node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkeletonLevel {
    Root,
    Item,
    Field,
}

/// Checks a whole schema. The errors are in alphabetical order, as upstream's `ValidateStructural`
/// sorts them.
pub(super) fn check(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = Vec::new();
    skeleton(schema, SkeletonLevel::Root, path, &mut wrong);
    // As upstream, only the restrictions of the root are checked for completeness.
    completeness(schema, schema, (path, path), &mut wrong);
    wrong.sort_by_cached_key(|error| format!("{}: {}", error.field, error.message));
    errors.extend(wrong);
}

/// Returns whether the value of a keyword counts as absent.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Checks the skeleton: every node has a type, and the server alone restricts metadata.
fn skeleton(node: &Value, level: SkeletonLevel, path: &str, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    let kind = node["type"].as_str().unwrap_or_default();
    let flag = |name: &str| node[name] == true;
    if kind == "array" && node["items"].is_null() {
        errors.push(FieldError::required(at("items"), "must be specified"));
    }
    if node["items"].is_object() {
        skeleton(&node["items"], SkeletonLevel::Item, &at("items"), errors);
    }
    for (name, sub) in node["properties"].as_object().into_iter().flatten() {
        let field = format!("{path}.properties[{name}]");
        skeleton(sub, SkeletonLevel::Field, &field, errors);
    }
    let additional = &node["additionalProperties"];
    if !additional.is_null() && level == SkeletonLevel::Root {
        let detail = "must not be used at the root";
        errors.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
    if additional.is_object() {
        let field = at("additionalProperties");
        skeleton(additional, SkeletonLevel::Field, &field, errors);
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag("x-kubernetes-int-or-string") && flag(name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(at(name), "true", detail));
        }
    }
    restrictions(node, path, errors);
    let embedded = flag("x-kubernetes-embedded-resource");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(at("type"), detail)
        } else {
            FieldError::invalid(at("type"), &go::quote(kind), detail)
        });
    } else if kind.is_empty()
        && !flag("x-kubernetes-int-or-string")
        && !flag("x-kubernetes-preserve-unknown-fields")
    {
        let detail = match level {
            SkeletonLevel::Root => "must not be empty at the root",
            SkeletonLevel::Item => "must not be empty for specified array items",
            SkeletonLevel::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at("type"), detail));
    }
    if embedded && !additional.is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
    if level == SkeletonLevel::Root && !kind.is_empty() && kind != "object" {
        let detail = "must be object at the root";
        errors.push(FieldError::invalid(at("type"), &go::quote(kind), detail));
    }
    let free = flag("x-kubernetes-preserve-unknown-fields");
    if embedded && !free && node["properties"].as_object().is_none_or(Map::is_empty) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(at("properties"), detail));
    }
    if embedded || level == SkeletonLevel::Root {
        own_type(node, level, path, errors);
    }
}

/// Checks the schemas of the fields `kind`, `apiVersion` and `metadata` of an object.
fn own_type(node: &Value, level: SkeletonLevel, path: &str, errors: &mut Vec<FieldError>) {
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let found = node["properties"].get(name);
        if let Some(found) = found.filter(|found| found["type"] != wanted) {
            let value = go::quote(found["type"].as_str().unwrap_or_default());
            let field = format!("{path}.properties[{name}].type");
            let detail = format!("must be {wanted}");
            errors.push(FieldError::invalid(field, &value, &detail));
        }
    }
    let metadata = &node["properties"]["metadata"];
    let Some(said) = metadata
        .as_object()
        .filter(|_| level == SkeletonLevel::Root)
    else {
        return;
    };
    let named = said.get("properties").and_then(Value::as_object);
    let plain = named.is_none_or(|named| {
        named
            .keys()
            .all(|name| matches!(name.as_str(), "name" | "generateName"))
    });
    let bare = said
        .keys()
        .all(|name| matches!(name.as_str(), "type" | "default" | "properties"));
    if !plain || !bare {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        let field = format!("{path}.properties[metadata]");
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// Checks the schemas under `allOf`, `anyOf`, `oneOf` and `not`, which restrict values and define
/// no fields. A skeleton node with `x-kubernetes-int-or-string` may have two types there.
fn restrictions(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let first = &node["allOf"][0]["anyOf"];
    nested(
        node,
        path,
        (is_int_or_string(&node["anyOf"]), is_int_or_string(first)),
        errors,
    );
}

/// Checks nested schemas. `skip` leaves out those in `anyOf`, and those in `anyOf` of the first
/// schema in `allOf`.
fn nested(node: &Value, path: &str, skip: (bool, bool), errors: &mut Vec<FieldError>) {
    for name in ["anyOf", "allOf", "oneOf"] {
        if name == "anyOf" && skip.0 {
            continue;
        }
        let listed = node[name].as_array().map_or(&[][..], Vec::as_slice);
        for (index, sub) in listed.iter().enumerate() {
            let skip = name == "allOf" && index == 0 && skip.1;
            restriction(sub, &format!("{path}.{name}[{index}]"), skip, errors);
        }
    }
    if node["not"].is_object() {
        restriction(&node["not"], &format!("{path}.not"), false, errors);
    }
    if let Some(why) = node["pattern"].as_str().and_then(patterns::mistake) {
        let detail =
            format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        let value = node["pattern"].to_string();
        errors.push(FieldError::invalid(
            format!("{path}.pattern"),
            &value,
            &detail,
        ));
    }
}

fn is_int_or_string(listed: &Value) -> bool {
    *listed == json!([{"type": "integer"}, {"type": "string"}])
}

fn restriction(node: &Value, path: &str, skip: bool, errors: &mut Vec<FieldError>) {
    nested(node, path, (skip, false), errors);
    if node["items"].is_object() {
        restriction(&node["items"], &format!("{path}.items"), false, errors);
    }
    for (name, sub) in node["properties"].as_object().into_iter().flatten() {
        restriction(sub, &format!("{path}.properties[{name}]"), false, errors);
    }
    for (name, detail) in OF_THE_SKELETON {
        let said = node.get(*name).is_some_and(|value| {
            (*name == "additionalProperties" || *value != false) && !is_empty(value)
        });
        if said {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
    if node["properties"].get("metadata").is_some() {
        let detail = "must not be specified in a nested context";
        let field = format!("{path}.properties[metadata]");
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// Checks that the skeleton defines all fields that the restrictions of a node name. `paths` are
/// the paths of the skeleton node and of the restriction.
fn completeness(
    restricted: &Value,
    skeleton: &Value,
    paths: (&str, &str),
    errors: &mut Vec<FieldError>,
) {
    let at = |part: &str| format!("{}.{part}", paths.1);
    if restricted["not"].is_object() {
        complete(&restricted["not"], skeleton, (paths.0, &at("not")), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let listed = restricted[name].as_array().into_iter().flatten();
        for (index, sub) in listed.enumerate() {
            let field = at(&format!("{name}[{index}]"));
            complete(sub, skeleton, (paths.0, &field), errors);
        }
    }
}

fn complete(
    restriction: &Value,
    skeleton: &Value,
    paths: (&str, &str),
    errors: &mut Vec<FieldError>,
) {
    if skeleton.is_null() {
        let detail = format!("because it is defined in {}", paths.1);
        errors.push(FieldError::required(paths.0, &detail));
        return;
    }
    completeness(restriction, skeleton, paths, errors);
    let below = |part: &str| (format!("{}.{part}", paths.0), format!("{}.{part}", paths.1));
    if restriction["items"].is_object() {
        let (own, other) = below("items");
        let items = (&restriction["items"], &skeleton["items"]);
        complete(items.0, items.1, (&own, &other), errors);
    }
    for (name, sub) in restriction["properties"].as_object().into_iter().flatten() {
        let (own, other) = below(&format!("properties[{name}]"));
        let named = &skeleton["properties"][name];
        complete(sub, named, (&own, &other), errors);
    }
}
