//! Machine: reduces custom schemas to what OpenAPI v2 can express.

use serde_json::{Map, Value};

/// The keywords that a schema keeps, beside the vendor extensions.
const KEPT: &[&str] = &[
    "additionalProperties", "description", "enum", "exclusiveMaximum", "exclusiveMinimum",
    "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minProperties", "minimum", "multipleOf", "pattern", "properties", "required",
    "title", "type", "uniqueItems",
];

/// Removes what v2 cannot express from a custom schema: junctors, defaults and `nullable`, and with `nullable` and
/// preserved unknown fields the structure, because kubectl would refuse what the server accepts.
///
/// Source: `ToStructuralOpenAPIV2` of apiextensions-apiserver, and `PruneDefaults` of kube-openapi.
pub(crate) fn reduce(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    let is_true =
        |members: &Map<String, Value>, name: &str| members.get(name) == Some(&Value::Bool(true));
    let nullable = is_true(members, "nullable");
    let open = is_true(members, "x-kubernetes-preserve-unknown-fields");
    members.retain(|name, _| KEPT.contains(&name.as_str()) || name.starts_with("x-"));
    if nullable || open {
        members.remove("items");
        members.remove("properties");
    }
    let kind = members.get("type").and_then(Value::as_str);
    let kind = kind.unwrap_or_default();
    let without_items = kind == "array" && !members.contains_key("items");
    if nullable || without_items || (open && kind == "object") {
        members.remove("type");
    }
    drop_nullable(members);
    for name in ["items", "additionalProperties"] {
        if let Some(below) = members.get_mut(name) {
            reduce(below);
        }
    }
    let below = members.get_mut("properties").and_then(Value::as_object_mut);
    below.into_iter().flat_map(Map::values_mut).for_each(reduce);
}

/// Removes the nullable properties from the required ones.
fn drop_nullable(members: &mut Map<String, Value>) {
    let is_nullable =
        |schema: Option<&Value>| schema.is_some_and(|schema| schema["nullable"] == true);
    let Some(Value::Array(mut required)) = members.remove("required") else {
        return;
    };
    let properties = members.get("properties");
    required.retain(|name| !is_nullable(properties.and_then(|all| all.get(name.as_str()?))));
    if !required.is_empty() && !is_nullable(members.get("additionalProperties")) {
        members.insert("required".to_owned(), Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_custom_schema_keeps_what_v2_can_express() {
        let mut schema = json!({
            "type": "object",
            "description": "A site.",
            "required": ["a", "b"],
            "properties": {
                "a": { "type": "object", "nullable": true, "properties": { "x": { "type": "string" } } },
                "b": { "type": "array", "items": { "type": "integer", "default": 1, "minimum": 0.5 } },
                "c": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {} },
                "d": {
                    "x-kubernetes-int-or-string": true,
                    "anyOf": [{ "type": "integer" }, { "type": "string" }],
                },
                "e": { "type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {} },
                "f": { "type": "object", "additionalProperties": { "type": "string", "nullable": true } },
            },
            "oneOf": [{ "required": ["a"] }],
            "not": { "required": ["c"] },
        });
        reduce(&mut schema);
        let wanted = json!({
            "type": "object",
            "description": "A site.",
            "required": ["b"],
            "properties": {
                "a": {},
                "b": { "type": "array", "items": { "type": "integer", "minimum": 0.5 } },
                "c": { "x-kubernetes-preserve-unknown-fields": true },
                "d": { "x-kubernetes-int-or-string": true },
                "e": { "x-kubernetes-preserve-unknown-fields": true },
                "f": { "type": "object", "additionalProperties": {} },
            },
        });
        assert_eq!(schema, wanted);
    }
}
