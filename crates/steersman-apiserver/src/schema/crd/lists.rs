//! Machine: checks what a schema says about lists that are sets or maps, and about maps.

use serde_json::Value;

use crate::schema::validate::quoted;
use crate::status::FieldError;

/// Checks one node of a schema.
pub(super) fn check(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    collection_type(node, path, ("x-kubernetes-map-type", "object"), errors);
    collection_type(node, path, ("x-kubernetes-list-type", "array"), errors);
    map_keys(node, path, errors);
    set_items(node, path, errors);
}

/// `x-kubernetes-list-type` and `x-kubernetes-map-type`: the type they need, and their words.
fn collection_type(
    node: &Value,
    path: &str,
    (keyword, wanted): (&str, &str),
    errors: &mut Vec<FieldError>,
) {
    let Some(found) = node[keyword].as_str() else {
        return;
    };
    let known: &[&str] = if wanted == "array" {
        &["atomic", "set", "map"]
    } else {
        &["atomic", "granular"]
    };
    let kind = node["type"].as_str().unwrap_or_default();
    if kind != wanted {
        let detail = format!("must be {wanted} if {keyword} is specified");
        let field = format!("{path}.type");
        errors.push(if kind.is_empty() {
            FieldError::required(field, &detail)
        } else {
            FieldError::invalid(field, &quoted(kind), &detail)
        });
    } else if !known.contains(&found) {
        let known: Vec<String> = known.iter().map(|word| quoted(word)).collect();
        let field = format!("{path}.{keyword}");
        errors.push(FieldError::not_supported(field, &quoted(found), &known));
    }
}

/// The keys of a list that is a map.
fn map_keys(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let keys = node["x-kubernetes-list-map-keys"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let field = format!("{path}.x-kubernetes-list-map-keys");
    let is_map = node["x-kubernetes-list-type"] == "map";
    if !is_map {
        if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let field = format!("{path}.x-kubernetes-list-type");
            errors.push(match node["x-kubernetes-list-type"].as_str() {
                None => FieldError::required(field, detail),
                Some(other) => FieldError::invalid(field, &quoted(other), detail),
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
    if items["type"] != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let found = quoted(items["type"].as_str().unwrap_or_default());
        let field = format!("{path}.items.type");
        errors.push(FieldError::invalid(field, &found, detail));
        return;
    }
    let required = items["required"].as_array().map_or(&[][..], Vec::as_slice);
    let listed = Value::from(keys.to_vec()).to_string();
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&field, &listed, detail));
        }
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items["properties"].get(name) else {
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&field, &listed, detail));
            continue;
        };
        let at = format!("{path}.items.properties[{name}]");
        if matches!(property["type"].as_str(), Some("array" | "object")) {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            let found = property["type"].to_string();
            errors.push(FieldError::invalid(format!("{at}.type"), &found, detail));
        }
        if !required.contains(key) && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(format!("{at}.default"), detail));
        }
        if property["nullable"] == true {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{at}.nullable"), detail));
        }
    }
}

/// What may be an item of a set or a map.
fn set_items(node: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = node["x-kubernetes-list-type"].as_str().unwrap_or_default();
    let items = &node["items"];
    if !matches!(list_type, "set" | "map") || !items.is_object() {
        return;
    }
    if items["nullable"] == true {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        let field = format!("{path}.items.nullable");
        errors.push(FieldError::forbidden(field, &detail));
    }
    if list_type == "map" {
        return;
    }
    let keyword = match items["type"].as_str() {
        Some("object") => "x-kubernetes-map-type",
        Some("array") => "x-kubernetes-list-type",
        _ => return,
    };
    if items[keyword] != "atomic" {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let field = format!("{path}.items.{keyword}");
        let found = items[keyword].to_string();
        errors.push(FieldError::invalid(field, &found, detail));
    }
}
