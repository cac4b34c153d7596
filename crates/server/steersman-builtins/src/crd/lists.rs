//! Machine: checks the list types and map types of a schema.

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;

const KEYS: &str = "x-kubernetes-list-map-keys";

/// Checks one node of a schema.
pub(super) fn check(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if collection_type(node, path, MAP, errors) {
        known_word(node, path, MAP, errors);
    }
    if collection_type(node, path, LIST, errors) {
        if node["type"] == "array" && node[LIST.keyword] == "set" {
            set_items(&node["items"], path, errors);
        }
        known_word(node, path, LIST, errors);
    }
    map_keys(node, path, errors);
    nothing_null(node, path, errors);
}

/// The keyword for the type of a collection.
#[derive(Debug, Clone, Copy)]
struct Collection {
    keyword: &'static str,
    /// The schema type that a node with the keyword needs.
    kind: &'static str,
    /// The values of the keyword.
    words: &'static [&'static str],
}

const MAP: Collection = Collection {
    keyword: "x-kubernetes-map-type",
    kind: "object",
    words: &["atomic", "granular"],
};

const LIST: Collection = Collection {
    keyword: "x-kubernetes-list-type",
    kind: "array",
    words: &["atomic", "set", "map"],
};

/// Checks that a node with the keyword has the type that the keyword needs. Returns whether the
/// node has the keyword.
fn collection_type(
    node: &Value,
    path: &str,
    collection: Collection,
    errors: &mut Vec<FieldError>,
) -> bool {
    let Collection { keyword, kind, .. } = collection;
    let found = node["type"].as_str().unwrap_or_default();
    let said = !node[keyword].is_null();
    if said && found != kind {
        let detail = format!("must be {kind} if {keyword} is specified");
        let field = format!("{path}.type");
        errors.push(if found.is_empty() {
            FieldError::required(field, &detail)
        } else {
            FieldError::invalid(field, &go::quote(found), &detail)
        });
    }
    said
}

fn known_word(node: &Value, path: &str, collection: Collection, errors: &mut Vec<FieldError>) {
    let Collection { keyword, words, .. } = collection;
    let found = node[keyword].as_str().unwrap_or_default();
    if !words.contains(&found) {
        let known: Vec<String> = words.iter().map(|word| go::quote(word)).collect();
        let field = format!("{path}.{keyword}");
        errors.push(FieldError::not_supported(field, &go::quote(found), &known));
    }
}

/// Checks the keys of a list of type `map`.
fn map_keys(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let keys = listed(&node[KEYS]);
    let field = format!("{path}.{KEYS}");
    if node[LIST.keyword] != "map" {
        if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let field = format!("{path}.{}", LIST.keyword);
            errors.push(match node[LIST.keyword].as_str() {
                None => FieldError::required(field, detail),
                Some(other) => FieldError::invalid(field, &go::quote(other), detail),
            });
        }
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&field, detail));
    }
    let items = &node["items"];
    if items.is_null() {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    }
    let kind = go::quote(items["type"].as_str().unwrap_or_default());
    if items["type"] != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let field = format!("{path}.items.type");
        errors.push(FieldError::invalid(field, &kind, detail));
        return;
    }
    let printed = node[KEYS].to_string();
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let property = items["properties"].get(name);
        let own = property.and_then(|property| property["type"].as_str());
        if property.is_none() {
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&field, &printed, detail));
        } else if matches!(own, Some("array" | "object")) {
            // As upstream, the message shows the type of the items.
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            let field = format!("{path}.items.properties[{name}].type");
            errors.push(FieldError::invalid(field, &kind, detail));
        }
        if keys[..index].contains(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&field, &printed, detail));
        }
    }
}

/// Checks the items of a list of type `set`, which are compared as a whole. Lists are atomic by
/// default, objects only if the schema says so.
fn set_items(items: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let said = |collection: Collection| items[collection.keyword].as_str();
    let keyword = match items["type"].as_str() {
        Some("array") if said(LIST).is_some_and(|word| word != "atomic") => LIST.keyword,
        Some("object") if said(MAP) != Some("atomic") => MAP.keyword,
        _ => return,
    };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let field = format!("{path}.items.{keyword}");
    // As upstream, the message shows the list type in both cases.
    let found = items[LIST.keyword].to_string();
    errors.push(FieldError::invalid(field, &found, detail));
}

/// Refuses `nullable` for items of lists of type `set` and `map`, and for the keys of such items.
fn nothing_null(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let word = node[LIST.keyword].as_str().unwrap_or_default();
    let items = &node["items"];
    if !matches!(word, "set" | "map") || !items.is_object() {
        return;
    }
    if items["nullable"] == true {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {word}");
        let field = format!("{path}.items.nullable");
        errors.push(FieldError::forbidden(field, &detail));
    }
    if word == "set" {
        return;
    }
    for key in listed(&node[KEYS]) {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items["properties"].get(name) else {
            continue;
        };
        let at = format!("{path}.items.properties[{name}]");
        if !listed(&items["required"]).contains(key) && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(format!("{at}.default"), detail));
        }
        if property["nullable"] == true {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{at}.nullable"), detail));
        }
    }
}

fn listed(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
