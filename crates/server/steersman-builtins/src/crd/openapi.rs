//! Machine: checks an `openAPIV3Schema`: unsupported keywords, list types, structure, defaults.

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;
use steersman_cel::Rules;
use steersman_cel::structural::Structural;

use crate::custom::formats::is_checked_format;
use crate::custom::validate::validate_at;

use super::skeleton::{self, is_empty};
use super::{cel_rules, lists, print};

/// The types that a schema may name.
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// The fields that the server sets at the root of an object.
const OWN_TYPE: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Keywords of JSON schema that definitions do not support.
const UNSUPPORTED: &[&str] = &[
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// Checks a whole schema.
pub(super) fn check(schema: &Value, path: &str, status: bool, errors: &mut Vec<FieldError>) {
    if status {
        check_root(schema, path, errors);
    }
    if schema["nullable"] == true {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let mut problems = Vec::new();
    keywords(schema, path, true, AncestorFacts::default(), &mut problems);
    let mut wrong = Vec::new();
    if is_structured(schema) {
        skeleton::check(schema, path, &mut wrong);
        if wrong.is_empty() {
            defaults(schema, path, true, &mut wrong);
        }
        if wrong.is_empty() {
            problems.extend(cel_rules::check(schema, path, &problems));
        }
    }
    errors.extend(wrong);
    errors.extend(problems);
}

/// Checks the root of a schema with a status subresource, which may have a few keywords only.
fn check_root(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        let field = format!("{path}.type");
        errors.push(FieldError::invalid(field, &go::quote(kind), detail));
    } else if let Some(detail) = print::beyond_root(schema) {
        errors.push(FieldError::invalid(path, &print::schema(schema), &detail));
    }
}

/// Returns the formats in a schema that the server does not know, in alphabetical order.
#[must_use]
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each(schema, "", &mut |node, _| {
        let format = node["format"].as_str().unwrap_or_default();
        let kind = node["type"].as_str().unwrap_or_default();
        if !format.is_empty() && !is_checked_format(kind, format) {
            found.push(format.to_owned());
        }
    });
    found.sort();
    found.dedup();
    found
}

/// Visits a schema and all schemas inside it.
fn each<'a>(schema: &'a Value, path: &str, visit: &mut dyn FnMut(&'a Value, &str)) {
    visit(schema, path);
    below(schema, path, &mut |sub, path, _| each(sub, path, visit));
}

/// A function that visits a schema: the schema, its path, and the name of the property if the
/// schema describes one.
type Visit<'v, 'a> = dyn FnMut(&'a Value, &str, Option<&'a str>) + 'v;

/// Visits the direct subschemas of a schema.
fn below<'a>(schema: &'a Value, path: &str, visit: &mut Visit<'_, 'a>) {
    let single = |name: &str| schema.get(name).filter(|sub| sub.is_object());
    if let Some(sub) = single("additionalProperties") {
        visit(sub, &format!("{path}.additionalProperties"), None);
    }
    for (name, sub) in schema["properties"].as_object().into_iter().flatten() {
        visit(sub, &format!("{path}.properties[{name}]"), Some(name));
    }
    if let Some(sub) = single("not") {
        visit(sub, &format!("{path}.not"), None);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let listed = schema[name].as_array().into_iter().flatten();
        for (index, sub) in listed.enumerate() {
            visit(sub, &format!("{path}.{name}[{index}]"), None);
        }
    }
    if let Some(sub) = single("items") {
        visit(sub, &format!("{path}.items"), None);
    }
}

/// Returns whether a schema has no keyword that makes the check of its structure impossible.
fn is_structured(schema: &Value) -> bool {
    let mut hidden = false;
    each(schema, "", &mut |node, _| {
        let unsupported = |name: &&str| node.get(*name).is_some_and(|value| !is_empty(value));
        hidden |= node["items"].is_array() || UNSUPPORTED.iter().any(unsupported);
    });
    !hidden
}

/// The facts about the nodes above a node that its checks need.
#[derive(Debug, Clone, Copy, Default)]
struct AncestorFacts<'a> {
    /// The field of [`OWN_TYPE`] that the node is or lies in.
    own_type: Option<&'a str>,
    /// Whether the node lies in such a field of the root object or of an embedded object.
    in_metadata: bool,
}

/// Checks keywords: first those that the node may not have, then the nodes below, then the rest of
/// the node. Upstream's `ValidateCustomResourceDefinitionOpenAPISchema` has the same order.
fn keywords(
    node: &Value,
    path: &str,
    root: bool,
    above: AncestorFacts<'_>,
    errors: &mut Vec<FieldError>,
) {
    unsupported(node, path, above, errors);
    let embedded = node["x-kubernetes-embedded-resource"] == true;
    below(node, path, &mut |sub, path, property| {
        let mut above = above;
        if let Some(name) = property.filter(|name| OWN_TYPE.contains(name))
            && (root || embedded)
        {
            above.in_metadata = true;
            if root {
                above.own_type = Some(name);
            }
        }
        keywords(sub, path, false, above, errors);
    });
    if node["x-kubernetes-preserve-unknown-fields"] == false {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        let detail = "must be true or undefined";
        errors.push(FieldError::invalid(field, "false", detail));
    }
    lists::check(node, path, errors);
    cel_rules::fields(node, path, errors);
}

/// Refuses keywords that a node may not have.
fn unsupported(node: &Value, path: &str, above: AncestorFacts<'_>, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    let kind = node["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let known: Vec<String> = TYPES.iter().map(|known| go::quote(known)).collect();
        errors.push(FieldError::not_supported(
            at("type"),
            &go::quote(kind),
            &known,
        ));
    }
    if let Some(name) = above.own_type.filter(|_| node.get("default").is_some()) {
        let detail = format!("must not be set in top-level {name}");
        errors.push(FieldError::forbidden(at("default"), &detail));
    }
    for name in UNSUPPORTED {
        if node.get(*name).is_some_and(|value| !is_empty(value)) {
            let detail = format!("{name} is not supported");
            errors.push(FieldError::forbidden(at(name), &detail));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(at("type"), detail));
    }
    if node["items"].is_array() {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(at("items"), detail));
    }
    if above.in_metadata && node["x-kubernetes-embedded-resource"] == true {
        let detail = "must not be used inside of resource meta";
        let field = at("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(field, detail));
    }
    if node["uniqueItems"] == true {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(at("uniqueItems"), detail));
    }
    let additional = &node["additionalProperties"];
    let named = node["properties"]
        .as_object()
        .is_some_and(|p| !p.is_empty());
    if named && !additional.is_null() && *additional != true {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
}

/// Checks that every default fits its schema, and that pruning removes no part of the default.
fn defaults(node: &Value, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = node.get("default") {
        let field = format!("{path}.default");
        let schema = Structural::compile(node);
        let mut pruned = default.clone();
        schema.prune(&mut pruned, "", schema.embedded, &mut Vec::new());
        if pruned != *default {
            let detail = "must not have unknown fields";
            errors.push(FieldError::invalid(&field, &default.to_string(), detail));
        }
        let wrong = validate_at(&schema, default, &field);
        if wrong.is_empty() {
            errors.extend(Rules::of_default(&schema, root, default, &field));
        }
        errors.extend(wrong);
    }
    for (name, sub) in node["properties"].as_object().into_iter().flatten() {
        if !(root && name == "metadata") {
            defaults(sub, &format!("{path}.properties[{name}]"), false, errors);
        }
    }
    // Schemas of map values are skipped: upstream's `ValidateDefaults` assumes that they have no
    // defaults.
    if node["items"].is_object() {
        defaults(&node["items"], &format!("{path}.items"), false, errors);
    }
}
