//! Machine: checks the list types and map types of a schema.

use std::collections::HashSet;

use serde_json::Value;

use crate::fields::{FieldPath, check};

const KEYS: &str = "x-kubernetes-list-map-keys";
const LIST: &str = "x-kubernetes-list-type";
const MAP: &str = "x-kubernetes-map-type";

pub(super) fn check(node: &FieldPath<'_>) {
    let [list, map] = node.parts([LIST, MAP]);
    if map.is_set() {
        check_type(node, MAP, "object");
        check::one_of(&map, &["atomic", "granular"]);
    }
    if list.is_set() {
        check_type(node, LIST, "array");
        if node.at("type").text() == "array" && list.text() == "set" {
            check_set_items(&node.at("items"));
        }
        check::one_of(&list, &["atomic", "set", "map"]);
    }
    check_map_keys(node);
    check_nullable(node);
}

/// Checks that a node with a keyword has the type that the keyword needs.
fn check_type(node: &FieldPath<'_>, keyword: &str, wanted: &str) {
    let kind = node.at("type");
    if kind.text() != wanted {
        let detail = format!("must be {wanted} if {keyword} is specified");
        need_text(&kind, &detail);
    }
}

/// Refuses a text, or its absence.
pub(super) fn need_text(at: &FieldPath<'_>, detail: &str) {
    if at.is_empty() {
        at.required(detail);
    } else {
        at.invalid_text(detail);
    }
}

fn check_map_keys(node: &FieldPath<'_>) {
    let [keys, list, items] = node.parts([KEYS, LIST, "items"]);
    if list.text() != "map" {
        if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            need_text(&list, detail);
        }
        return;
    }
    keys.need("must not be empty if x-kubernetes-list-type is map");
    if !items.need_set("must have a schema if x-kubernetes-list-type is map") {
        return;
    }
    let kind = items.at("type");
    if kind.text() != "object" {
        return kind.invalid_text("must be object if parent array's x-kubernetes-list-type is map");
    }
    let printed = keys.value().to_string();
    let mut seen = HashSet::new();
    for key in keys.items() {
        let property = items.at("properties").key(key.text());
        if items.value()["properties"].get(key.text()).is_none() {
            keys.invalid_written(&printed, "entries must all be names of item properties");
        } else if matches!(property.at("type").text(), "array" | "object") {
            // As upstream, the message shows the type of the items.
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            property.at("type").invalid_as(kind.value(), detail);
        }
        if !seen.insert(key.text()) {
            keys.invalid_written(&printed, "must not contain duplicate entries");
        }
    }
}

/// Checks the items of a list of type `set`, which are compared as a whole.
fn check_set_items(items: &FieldPath<'_>) {
    let [list, map] = items.parts([LIST, MAP]);
    let keyword = match items.at("type").text() {
        "array" if list.is_set() && list.text() != "atomic" => &list,
        "object" if map.text() != "atomic" => &map,
        _ => return,
    };
    // As upstream, the message shows the list type in both cases.
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    keyword.invalid_as(list.value(), detail);
}

/// Refuses `nullable` for items of lists of type `set` and `map`, and for the keys of such items.
fn check_nullable(node: &FieldPath<'_>) {
    let word = node.at(LIST).text();
    let items = node.at("items");
    if !matches!(word, "set" | "map") || !items.value().is_object() {
        return;
    }
    if items.at("nullable").flag() {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {word}");
        items.at("nullable").forbidden(&detail);
    }
    if word == "set" {
        return;
    }
    for key in node.at(KEYS).items() {
        let Some(property) = items.value()["properties"].get(key.text()) else {
            continue;
        };
        let at = items.at("properties").key(key.text());
        let is_required = items
            .at("required")
            .items()
            .any(|one| one.value() == key.value());
        if !is_required && property.get("default").is_none() {
            at.at("default").required("this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property");
        }
        if property["nullable"] == Value::Bool(true) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            at.at("nullable").forbidden(detail);
        }
    }
}
