//! Machine: replaces the formats of unsigned numbers, which schemars writes and API servers do not know.

use serde_json::{Map, Value, json};

pub(crate) fn correct(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions");
    for version in versions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            correct_formats(schema);
        }
    }
}

/// Replaces the formats of unsigned numbers in a schema and its subschemas: `uint8` and `uint16` become `int32`, and
/// `uint32`, `uint64` and `uint` become `int64`. The minimum stays, and defaults to 0.
fn correct_formats(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if let Some(format) = signed(schema) {
        schema.insert("format".to_owned(), json!(format));
        schema.entry("minimum").or_insert_with(|| json!(0));
    }
    for (key, value) in schema {
        match key.as_str() {
            "properties" => value
                .as_object_mut()
                .into_iter()
                .flat_map(Map::values_mut)
                .for_each(correct_formats),
            "items" | "additionalProperties" | "not" => correct_formats(value),
            "allOf" | "anyOf" | "oneOf" => value
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(correct_formats),
            _ => {}
        }
    }
}

fn signed(schema: &Map<String, Value>) -> Option<&'static str> {
    match schema.get("format").and_then(Value::as_str)? {
        "uint8" | "uint16" => Some("int32"),
        "uint32" | "uint64" | "uint" => Some("int64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_formats_become_signed_ones_and_the_minimum_stays() {
        let unsigned = |format: &str| json!({"type": "integer", "format": format, "minimum": 3});
        let schema = json!({"properties": {
            "a": unsigned("uint8"),
            "b": {"items": unsigned("uint32")},
            "c": {"additionalProperties": {"anyOf": [unsigned("uint64")]}},
            "format": {"type": "integer", "format": "uint16"},
            "d": {"type": "string", "format": "date-time", "default": {"format": "uint8"}},
        }});
        let signed = |format: &str| json!({"type": "integer", "format": format, "minimum": 3});
        let expected = json!({"properties": {
            "a": signed("int32"),
            "b": {"items": signed("int64")},
            "c": {"additionalProperties": {"anyOf": [signed("int64")]}},
            "format": {"type": "integer", "format": "int32", "minimum": 0},
            "d": {"type": "string", "format": "date-time", "default": {"format": "uint8"}},
        }});
        let definition =
            |schema| json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
        let mut corrected = definition(schema);
        correct(&mut corrected);
        assert_eq!(corrected, definition(expected));
    }
}
