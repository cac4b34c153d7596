//! Machine: checks an `openAPIV3Schema`: unsupported keywords, list types, structure, defaults.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use steersman_cel::Rules;
use steersman_cel::structural::Structural;

use crate::custom::formats::is_checked_format;
use crate::custom::validate::validate_at;
use crate::fields::fill::{elements, lacks};
use crate::fields::{FieldPath, Findings};

use super::{cel_rules, lists, print, skeleton};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// The fields that the server sets at the root of an object.
const OWN_TYPE: [&str; 3] = ["metadata", "kind", "apiVersion"];

const UNSUPPORTED: &[&str] = &[
    "id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref",
];

pub(super) fn check(schema: &FieldPath<'_>, status: bool) {
    if status {
        check_root(schema);
    }
    let nullable = schema.at("nullable");
    if nullable.flag() {
        nullable.forbidden("nullable cannot be true at the root");
    }
    let mut problems = schema.errors_of(|schema| keywords(schema, true, AncestorFacts::default()));
    if is_structured(schema.value()) {
        let mut wrong = skeleton::check(schema);
        if wrong.is_empty() {
            wrong = schema.errors_of(|schema| defaults(schema, true));
        }
        if wrong.is_empty() {
            let costly = schema.errors_of(|schema| cel_rules::check_costs(schema, &problems));
            problems.extend(costly);
        }
        schema.extend(wrong);
    }
    schema.extend(problems);
}

/// Checks the root of a schema with a status subresource, which may have a few keywords only.
fn check_root(schema: &FieldPath<'_>) {
    let kind = schema.at("type");
    if !kind.is_empty() && kind.text() != "object" {
        kind.invalid_text("only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled");
    } else if let Some(detail) = print::beyond_root(schema.value()) {
        schema.invalid_printed(&print::SCHEMA, &detail);
    }
}

/// Returns the formats in a schema that the server does not know, in alphabetical order.
#[must_use]
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    Findings::errors(schema, |root| {
        each(root, &mut |node| {
            let [format, kind] = node.parts(["format", "type"]).map(|text| text.text());
            if !format.is_empty() && !is_checked_format(kind, format) {
                found.insert(format.to_owned());
            }
        });
    });
    found.into_iter().collect()
}

/// Visits a schema and all schemas inside it.
fn each<'a>(schema: &FieldPath<'a>, visit: &mut dyn FnMut(&FieldPath<'a>)) {
    visit(schema);
    below(schema, &mut |sub, _| each(sub, visit));
}

/// Visits a schema, with the name of the property that the schema describes, if any.
type Visit<'v, 'a> = dyn FnMut(&FieldPath<'a>, Option<&'a str>) + 'v;

fn below<'a>(schema: &FieldPath<'a>, visit: &mut Visit<'_, 'a>) {
    let single = |name: &'static str, visit: &mut Visit<'_, 'a>| {
        let sub = schema.at(name);
        if sub.value().is_object() {
            visit(&sub, None);
        }
    };
    single("additionalProperties", visit);
    for (name, sub) in schema.at("properties").entries() {
        visit(&sub, Some(name));
    }
    single("not", visit);
    for list in schema.parts(["allOf", "oneOf", "anyOf"]) {
        list.items().for_each(|sub| visit(&sub, None));
    }
    single("items", visit);
}

/// Returns whether a schema has no keyword that makes the check of its structure impossible.
fn is_structured(schema: &Value) -> bool {
    let items = &schema["items"];
    let single = [&schema["additionalProperties"], &schema["not"], items];
    let properties = schema["properties"].as_object();
    let lists = ["allOf", "oneOf", "anyOf"].map(|name| elements(&schema[name]));
    let mut below = single
        .into_iter()
        .chain(properties.into_iter().flat_map(Map::values))
        .chain(lists.into_iter().flatten())
        .filter(|sub| sub.is_object());
    !items.is_array()
        && UNSUPPORTED.iter().all(|name| lacks(schema, name))
        && below.all(is_structured)
}

#[derive(Debug, Clone, Copy, Default)]
struct AncestorFacts<'a> {
    /// The field of [`OWN_TYPE`] that the node is or lies in.
    own_type: Option<&'a str>,
    /// Whether the node lies in such a field of the root object or of an embedded object.
    in_metadata: bool,
}

/// Checks keywords: first those that the node may not have, then the nodes below, then the rest of
/// the node. Upstream's `ValidateCustomResourceDefinitionOpenAPISchema` has the same order.
fn keywords<'a>(node: &FieldPath<'a>, root: bool, above: AncestorFacts<'a>) {
    unsupported(node, above);
    let embedded = node.at("x-kubernetes-embedded-resource").flag();
    below(node, &mut |sub, property| {
        let mut above = above;
        if let Some(name) = property.filter(|name| OWN_TYPE.contains(name))
            && (root || embedded)
        {
            above.in_metadata = true;
            if root {
                above.own_type = Some(name);
            }
        }
        keywords(sub, false, above);
    });
    let free = node.at("x-kubernetes-preserve-unknown-fields");
    if *free.value() == Value::Bool(false) {
        free.invalid("must be true or undefined");
    }
    lists::check(node);
    cel_rules::fields(node);
}

fn unsupported(node: &FieldPath<'_>, above: AncestorFacts<'_>) {
    let [kind, items, embedded, unique, additional] = node.parts([
        "type",
        "items",
        "x-kubernetes-embedded-resource",
        "uniqueItems",
        "additionalProperties",
    ]);
    if !kind.is_empty() && !TYPES.contains(&kind.text()) {
        kind.not_supported(TYPES);
    }
    if let Some(name) = above
        .own_type
        .filter(|_| node.value().get("default").is_some())
    {
        node.at("default")
            .forbidden(&format!("must not be set in top-level {name}"));
    }
    for name in UNSUPPORTED {
        node.at(name)
            .deny_filled(&format!("{name} is not supported"));
    }
    if kind.text() == "null" {
        kind.forbidden("type cannot be set to null, use nullable as an alternative");
    }
    if items.value().is_array() {
        items.forbidden("items must be a schema object and not an array");
    }
    if above.in_metadata && embedded.flag() {
        embedded.forbidden("must not be used inside of resource meta");
    }
    if unique.flag() {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        unique.forbidden(detail);
    }
    if !node.at("properties").is_empty() && !additional.flag() {
        additional.deny("additionalProperties and properties are mutual exclusive");
    }
}

/// Checks that every default fits its schema, and that pruning removes no part of the default.
fn defaults(node: &FieldPath<'_>, root: bool) {
    if let Some(default) = node.value().get("default") {
        let at = node.at("default");
        let schema = Structural::compile(node.value());
        let mut pruned = default.clone();
        schema.prune(&mut pruned, "", schema.embedded, &mut Vec::new());
        if pruned != *default {
            at.invalid("must not have unknown fields");
        }
        let wrong = validate_at(&schema, default, None, &at.path());
        if wrong.is_empty() {
            at.extend(Rules::of_default(&schema, root, default, &at.path()));
        }
        at.extend(wrong);
    }
    for (name, sub) in node.at("properties").entries() {
        if !(root && name == "metadata") {
            defaults(&sub, false);
        }
    }
    // Schemas of map values are skipped, as in upstream's `ValidateDefaults`.
    let items = node.at("items");
    if items.value().is_object() {
        defaults(&items, false);
    }
}
