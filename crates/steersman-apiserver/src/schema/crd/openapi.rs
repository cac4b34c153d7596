//! Machine: checks an `openAPIV3Schema`: keywords that are not supported, list types, structure, defaults.

use serde_json::{Map, Value};

use super::{lists, patterns, print, rules};
use crate::schema::structural::Structural;
use crate::schema::validate::{quoted, validate_at};
use crate::status::FieldError;

/// Formats that values are checked against, or that stand for nothing more than their type.
const FORMATS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// The types that a schema may name.
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// What the server itself fills in at the root of an object.
const OWN_TYPE: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Keywords of JSON schema that definitions do not know.
const UNSUPPORTED: &[&str] = &[
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// What only the skeleton of a schema may say, and what a nested one is told instead.
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
];

/// Where a node of the skeleton stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks a whole schema.
pub(super) fn check(schema: &Value, path: &str, status: bool, errors: &mut Vec<FieldError>) {
    if status {
        check_root(schema, path, errors);
    }
    if schema["nullable"] == true {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let mut told = Vec::new();
    keywords(schema, path, &mut told);
    let mut wrong = Vec::new();
    if is_structured(schema) {
        skeleton(schema, Level::Root, path, &mut wrong);
        if wrong.is_empty() {
            defaults(schema, path, true, &mut wrong);
        }
        if wrong.is_empty() {
            told.extend(rules::check(schema, path, &told));
        }
    }
    errors.extend(wrong);
    errors.extend(told);
}

/// Where the status is checked on its own, the root says little else than what there is.
fn check_root(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        let field = format!("{path}.type");
        errors.push(FieldError::invalid(field, &quoted(kind), detail));
    } else if let Some(detail) = print::beyond_root(schema) {
        errors.push(FieldError::invalid(path, &print::schema(schema), &detail));
    }
}

/// The formats in a schema that mean nothing to the server, by alphabet.
#[must_use]
pub(crate) fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each(schema, "", &mut |node, _| {
        let format = node["format"].as_str().unwrap_or_default();
        let known =
            FORMATS.contains(&format.replace('-', "").as_str()) || FORMATS.contains(&format);
        if node["type"] == "string" && !format.is_empty() && !known {
            found.push(format.to_owned());
        }
    });
    found.sort();
    found.dedup();
    found
}

/// Visits a schema and the schemas in it.
fn each<'a>(schema: &'a Value, path: &str, visit: &mut dyn FnMut(&'a Value, &str)) {
    visit(schema, path);
    let listed = schema["properties"].as_object().into_iter().flatten();
    for (name, sub) in listed {
        each(sub, &format!("{path}.properties[{name}]"), visit);
    }
    for name in ["items", "additionalProperties", "not"] {
        if let Some(sub) = schema.get(name).filter(|sub| sub.is_object()) {
            each(sub, &format!("{path}.{name}"), visit);
        }
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let listed = schema[name].as_array().into_iter().flatten();
        for (index, sub) in listed.enumerate() {
            each(sub, &format!("{path}.{name}[{index}]"), visit);
        }
    }
}

/// Whether a schema has a structure to check: no keyword hides it.
fn is_structured(schema: &Value) -> bool {
    let mut hidden = false;
    each(schema, "", &mut |node, _| {
        let unsupported = |name: &&str| node.get(*name).is_some_and(|value| !is_empty(value));
        hidden |= node["items"].is_array() || UNSUPPORTED.iter().any(unsupported);
    });
    !hidden
}

/// The rules about keywords, node by node.
fn keywords(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let own_type = OWN_TYPE.map(|name| (format!("{path}.properties[{name}]"), name));
    each(schema, path, &mut |node, path| {
        let at = |name: &str| format!("{path}.{name}");
        let kind = node["type"].as_str().unwrap_or_default();
        if !kind.is_empty() && kind != "null" && !TYPES.contains(&kind) {
            let known: Vec<String> = TYPES.iter().map(|known| quoted(known)).collect();
            errors.push(FieldError::not_supported(at("type"), &quoted(kind), &known));
        }
        let within = own_type
            .iter()
            .find(|(place, _)| path.starts_with(place.as_str()));
        if let Some((_, name)) = within.filter(|_| node.get("default").is_some()) {
            let detail = format!("must not be set in top-level {name}");
            errors.push(FieldError::forbidden(at("default"), &detail));
        }
        for name in UNSUPPORTED {
            if node.get(*name).is_some_and(|value| !is_empty(value)) {
                let detail = format!("{name} is not supported");
                errors.push(FieldError::forbidden(at(name), &detail));
            }
        }
        if node["type"] == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(at("type"), detail));
        }
        if node["items"].is_array() {
            let detail = "items must be a schema object and not an array";
            errors.push(FieldError::forbidden(at("items"), detail));
        }
        if let Some(why) = node["pattern"].as_str().and_then(patterns::mistake) {
            let detail = format!(
                "must be a valid regular expression, but isn't: error parsing regexp: {why}"
            );
            let value = node["pattern"].to_string();
            errors.push(FieldError::invalid(at("pattern"), &value, &detail));
        }
        if node["uniqueItems"] == true {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.push(FieldError::forbidden(at("uniqueItems"), detail));
        }
        let additional = &node["additionalProperties"];
        if *additional == false {
            let detail = "additionalProperties cannot be set to false";
            errors.push(FieldError::forbidden(at("additionalProperties"), detail));
        }
        let named = node["properties"]
            .as_object()
            .is_some_and(|p| !p.is_empty());
        if !additional.is_null() && named {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(at("additionalProperties"), detail));
        }
        if node["x-kubernetes-preserve-unknown-fields"] == false {
            let field = at("x-kubernetes-preserve-unknown-fields");
            errors.push(FieldError::invalid(
                field,
                "false",
                "must be true or undefined",
            ));
        }
        lists::check(node, path, errors);
        rules::fields(node, path, errors);
    });
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The skeleton: every node says its type, and metadata is left to the server.
fn skeleton(node: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    let kind = node["type"].as_str().unwrap_or_default();
    let flag = |name: &str| node[name] == true;
    if kind == "array" && node["items"].is_null() {
        errors.push(FieldError::required(at("items"), "must be specified"));
    }
    if node["items"].is_object() {
        skeleton(&node["items"], Level::Item, &at("items"), errors);
    }
    for (name, sub) in node["properties"].as_object().into_iter().flatten() {
        let field = format!("{path}.properties[{name}]");
        skeleton(sub, Level::Field, &field, errors);
    }
    if node["additionalProperties"].is_object() {
        let sub = &node["additionalProperties"];
        skeleton(sub, Level::Field, &at("additionalProperties"), errors);
    }
    if flag("x-kubernetes-int-or-string") && !kind.is_empty() {
        let detail = "must be empty if x-kubernetes-int-or-string is true";
        errors.push(FieldError::forbidden(at("type"), detail));
    }
    nested(node, path, errors);
    let embedded = flag("x-kubernetes-embedded-resource");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(at("type"), detail)
        } else {
            FieldError::invalid(at("type"), &quoted(kind), detail)
        });
    } else if kind.is_empty()
        && !flag("x-kubernetes-int-or-string")
        && !flag("x-kubernetes-preserve-unknown-fields")
    {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at("type"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        let detail = "must be object at the root";
        errors.push(FieldError::invalid(at("type"), &quoted(kind), detail));
    }
    let free = flag("x-kubernetes-preserve-unknown-fields");
    if embedded && !free && node["properties"].as_object().is_none_or(Map::is_empty) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(at("properties"), detail));
    }
    if embedded || level == Level::Root {
        own_type(node, level, path, errors);
    }
}

/// What a schema may say about `kind`, `apiVersion` and `metadata` of an object.
fn own_type(node: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let found = node["properties"].get(name);
        if let Some(found) = found.filter(|found| found["type"] != wanted) {
            let value = quoted(found["type"].as_str().unwrap_or_default());
            let field = format!("{path}.properties[{name}].type");
            let detail = format!("must be {wanted}");
            errors.push(FieldError::invalid(field, &value, &detail));
        }
    }
    let metadata = &node["properties"]["metadata"];
    let Some(said) = metadata.as_object().filter(|_| level == Level::Root) else {
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

/// What stands under `allOf`, `anyOf`, `oneOf` and `not` restricts values and defines nothing.
fn nested(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let either = node["x-kubernetes-int-or-string"] == true;
    for name in ["allOf", "anyOf", "oneOf"] {
        let listed = node[name].as_array().map_or(&[][..], Vec::as_slice);
        if either && name == "anyOf" && is_int_or_string(listed) {
            continue;
        }
        for (index, sub) in listed.iter().enumerate() {
            let first = sub["anyOf"].as_array().map_or(&[][..], Vec::as_slice);
            if either && name == "allOf" && index == 0 && is_int_or_string(first) {
                continue;
            }
            restriction(sub, &format!("{path}.{name}[{index}]"), errors);
        }
    }
    if node["not"].is_object() {
        restriction(&node["not"], &format!("{path}.not"), errors);
    }
}

fn is_int_or_string(listed: &[Value]) -> bool {
    matches!(listed, [first, second] if first["type"] == "integer" && second["type"] == "string")
}

fn restriction(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    nested(node, path, errors);
    if node["items"].is_object() {
        restriction(&node["items"], &format!("{path}.items"), errors);
    }
    for (name, sub) in node["properties"].as_object().into_iter().flatten() {
        restriction(sub, &format!("{path}.properties[{name}]"), errors);
    }
    for (name, detail) in OF_THE_SKELETON {
        let said = node
            .get(*name)
            .is_some_and(|value| *value != false && !is_empty(value));
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

/// Every default fits its own schema, and nothing of it would be pruned.
fn defaults(node: &Value, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = node.get("default") {
        let field = format!("{path}.default");
        let schema = Structural::compile(node);
        let mut pruned = default.clone();
        schema.prune(&mut pruned, "", schema.embedded, &mut Vec::new());
        if pruned != *default {
            let detail = "must not have unknown fields";
            errors.push(FieldError::invalid(&field, &default.to_string(), detail));
        } else if !(default.is_null() && schema.nullable) {
            errors.extend(validate_at(&schema, default, &field));
        }
    }
    for (name, sub) in node["properties"].as_object().into_iter().flatten() {
        if !(root && name == "metadata") {
            defaults(sub, &format!("{path}.properties[{name}]"), false, errors);
        }
    }
    for name in ["items", "additionalProperties"] {
        if node[name].is_object() {
            defaults(&node[name], &format!("{path}.{name}"), false, errors);
        }
    }
}
