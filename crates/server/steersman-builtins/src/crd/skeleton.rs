//! Machine: checks that a schema is structural: its skeleton has types, and schemas below `allOf`
//! and the like only restrict values.

use serde_json::{Value, json};
use steersman_apimachinery::patterns;
use steersman_apimachinery::status::FieldError;

use super::lists::need_text;
use crate::fields::FieldPath;

/// Keywords that only the skeleton may have, each with the state that it must have in a nested schema.
const OF_THE_SKELETON: &[(&str, &str)] = &[
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("externalDocs", "undefined"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkeletonLevel {
    Root,
    Item,
    Field,
}

/// Checks a schema. The errors are in alphabetical order (upstream: `ValidateStructural`).
pub(super) fn check(schema: &FieldPath<'_>) -> Vec<FieldError> {
    let mut wrong = schema.errors_of(|schema| {
        skeleton(schema, SkeletonLevel::Root);
        // As upstream, only the restrictions of the root are checked for completeness.
        completeness(schema, schema);
    });
    wrong.sort_by_cached_key(|error| format!("{}: {}", error.field, error.message));
    wrong
}

/// Checks the skeleton: every node has a type, and the server alone restricts metadata.
fn skeleton(node: &FieldPath<'_>, level: SkeletonLevel) {
    let [kind, items, properties, additional] =
        node.parts(["type", "items", "properties", "additionalProperties"]);
    let flag = |name: &'static str| node.at(name).flag();
    if kind.text() == "array" && !items.is_set() {
        items.required("must be specified");
    }
    if items.value().is_object() {
        skeleton(&items, SkeletonLevel::Item);
    }
    for (_, property) in properties.entries() {
        skeleton(&property, SkeletonLevel::Field);
    }
    if level == SkeletonLevel::Root {
        additional.deny("must not be used at the root");
    }
    if additional.value().is_object() {
        skeleton(&additional, SkeletonLevel::Field);
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag("x-kubernetes-int-or-string") && flag(name) {
            node.at(name)
                .invalid("must be false if x-kubernetes-int-or-string is true");
        }
    }
    let skip_own = is_int_or_string(&node.value()["anyOf"]);
    let skip_first = is_int_or_string(&node.value()["allOf"][0]["anyOf"]);
    // Checks the schemas under `allOf`, `anyOf`, `oneOf` and `not`, which define no fields.
    nested(node, (skip_own, skip_first));
    let embedded = flag("x-kubernetes-embedded-resource");
    let free = flag("x-kubernetes-preserve-unknown-fields");
    if embedded && kind.text() != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        need_text(&kind, detail);
    } else if !flag("x-kubernetes-int-or-string") && !free {
        kind.need(match level {
            SkeletonLevel::Root => "must not be empty at the root",
            SkeletonLevel::Item => "must not be empty for specified array items",
            SkeletonLevel::Field => "must not be empty for specified object fields",
        });
    }
    if embedded {
        additional.deny("must not be used if x-kubernetes-embedded-resource is set");
    }
    if level == SkeletonLevel::Root && !kind.is_empty() && kind.text() != "object" {
        kind.invalid_text("must be object at the root");
    }
    if embedded && !free {
        properties.need("must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields");
    }
    if embedded || level == SkeletonLevel::Root {
        own_type(&properties, level);
    }
}

/// Checks the schemas of the fields `kind`, `apiVersion` and `metadata` of an object.
fn own_type(properties: &FieldPath<'_>, level: SkeletonLevel) {
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let kind = properties.key(name).at("type");
        if properties.value().get(name).is_some() && kind.text() != wanted {
            kind.invalid_text(&format!("must be {wanted}"));
        }
    }
    let metadata = properties.key("metadata");
    let Some(said) = metadata
        .value()
        .as_object()
        .filter(|_| level == SkeletonLevel::Root)
    else {
        return;
    };
    let is_plain = metadata
        .at("properties")
        .entries()
        .all(|(name, _)| matches!(name, "name" | "generateName"));
    let is_bare = said
        .keys()
        .all(|name| matches!(name.as_str(), "type" | "default" | "properties"));
    if !is_plain || !is_bare {
        metadata.forbidden("must not specify anything other than name and generateName, but metadata is implicitly specified");
    }
}

/// Checks nested schemas. `skip` leaves out `anyOf`, here and in the first of `allOf`.
fn nested(node: &FieldPath<'_>, skip: (bool, bool)) {
    if !skip.0 {
        node.at("anyOf").each(|sub| restriction(sub, false));
    }
    for (index, sub) in node.at("allOf").items().enumerate() {
        restriction(&sub, index == 0 && skip.1);
    }
    node.at("oneOf").each(|sub| restriction(sub, false));
    let [not, pattern] = node.parts(["not", "pattern"]);
    if not.value().is_object() {
        restriction(&not, false);
    }
    if let Some(why) = pattern.value().as_str().and_then(patterns::mistake) {
        let detail =
            format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        pattern.invalid_written(&pattern.value().to_string(), &detail);
    }
}

fn is_int_or_string(listed: &Value) -> bool {
    *listed == json!([{"type": "integer"}, {"type": "string"}])
}

fn restriction(node: &FieldPath<'_>, skip: bool) {
    nested(node, (skip, false));
    let [items, properties] = node.parts(["items", "properties"]);
    if items.value().is_object() {
        restriction(&items, false);
    }
    for (_, property) in properties.entries() {
        restriction(&property, false);
    }
    for (name, state) in OF_THE_SKELETON {
        let at = node.at(name);
        let is_unset = *name != "additionalProperties" && *at.value() == Value::Bool(false);
        if !is_unset && !at.is_empty() {
            at.forbidden(&format!("must be {state} to be structural"));
        }
    }
    if properties.value().get("metadata").is_some() {
        let metadata = properties.key("metadata");
        metadata.forbidden("must not be specified in a nested context");
    }
}

/// Checks that the skeleton defines all fields that the restrictions of a node name.
fn completeness(restricted: &FieldPath<'_>, skeleton: &FieldPath<'_>) {
    let not = restricted.at("not");
    if not.value().is_object() {
        complete(&not, skeleton);
    }
    for list in restricted.parts(["allOf", "anyOf", "oneOf"]) {
        list.each(|sub| complete(sub, skeleton));
    }
}

fn complete(restriction: &FieldPath<'_>, skeleton: &FieldPath<'_>) {
    if !skeleton.need_set(&format!("because it is defined in {}", restriction.path())) {
        return;
    }
    completeness(restriction, skeleton);
    let items = restriction.at("items");
    if items.value().is_object() {
        complete(&items, &skeleton.at("items"));
    }
    for (name, property) in restriction.at("properties").entries() {
        complete(&property, &skeleton.at("properties").key(name));
    }
}
