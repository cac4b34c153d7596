//! Machine: the fields of a CustomResourceDefinition, and which of them are stored.

use serde_json::{Map, Value};
use steersman_apimachinery::json;

/// The type of a field of a definition.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Scalars, and values that are not decoded further.
    Any,
    /// Like `Any`, but an empty, false or zero value is not stored.
    Optional,
    /// An object with these fields.
    Object(Fields),
    /// A list of objects with these fields.
    List(Fields),
    /// A schema, or another value that JSON schema allows in the same field, such as `true`.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
}

type Fields = &'static [(&'static str, Shape)];

const SPEC: Fields = &[
    ("group", Shape::Any),
    ("scope", Shape::Any),
    ("names", Shape::Object(NAMES)),
    ("versions", Shape::List(VERSION)),
    ("conversion", Shape::Object(CONVERSION)),
    ("preserveUnknownFields", Shape::Optional),
];

const NAMES: Fields = &[
    ("plural", Shape::Any),
    ("singular", Shape::Optional),
    ("shortNames", Shape::Optional),
    ("kind", Shape::Any),
    ("listKind", Shape::Optional),
    ("categories", Shape::Optional),
];

const CONVERSION: Fields = &[("strategy", Shape::Any), ("webhook", Shape::Any)];

const VERSION: Fields = &[
    ("name", Shape::Any),
    ("served", Shape::Any),
    ("storage", Shape::Any),
    ("deprecated", Shape::Optional),
    ("deprecationWarning", Shape::Any),
    (
        "schema",
        Shape::Object(&[("openAPIV3Schema", Shape::Schema)]),
    ),
    ("subresources", Shape::Object(SUBRESOURCES)),
    ("additionalPrinterColumns", Shape::List(COLUMN)),
    ("selectableFields", Shape::List(&[("jsonPath", Shape::Any)])),
];

const SUBRESOURCES: Fields = &[("status", Shape::Any), ("scale", Shape::Object(SCALE))];

const SCALE: Fields = &[
    ("specReplicasPath", Shape::Any),
    ("statusReplicasPath", Shape::Any),
    ("labelSelectorPath", Shape::Any),
];

const COLUMN: Fields = &[
    ("name", Shape::Any),
    ("type", Shape::Any),
    ("format", Shape::Optional),
    ("description", Shape::Optional),
    ("priority", Shape::Optional),
    ("jsonPath", Shape::Any),
];

const SCHEMA: Fields = &[
    ("id", Shape::Optional),
    ("$schema", Shape::Optional),
    ("$ref", Shape::Any),
    ("description", Shape::Optional),
    ("type", Shape::Optional),
    ("format", Shape::Optional),
    ("title", Shape::Optional),
    ("default", Shape::Any),
    ("maximum", Shape::Any),
    ("exclusiveMaximum", Shape::Optional),
    ("minimum", Shape::Any),
    ("exclusiveMinimum", Shape::Optional),
    ("maxLength", Shape::Any),
    ("minLength", Shape::Any),
    ("pattern", Shape::Optional),
    ("maxItems", Shape::Any),
    ("minItems", Shape::Any),
    ("uniqueItems", Shape::Optional),
    ("multipleOf", Shape::Any),
    ("enum", Shape::Optional),
    ("maxProperties", Shape::Any),
    ("minProperties", Shape::Any),
    ("required", Shape::Optional),
    ("items", Shape::Schema),
    ("allOf", Shape::Schemas),
    ("oneOf", Shape::Schemas),
    ("anyOf", Shape::Schemas),
    ("not", Shape::Schema),
    ("properties", Shape::Named),
    ("additionalProperties", Shape::Schema),
    ("patternProperties", Shape::Named),
    ("dependencies", Shape::Optional),
    ("additionalItems", Shape::Schema),
    ("definitions", Shape::Named),
    ("externalDocs", Shape::Any),
    ("example", Shape::Any),
    ("nullable", Shape::Optional),
    ("x-kubernetes-preserve-unknown-fields", Shape::Any),
    ("x-kubernetes-embedded-resource", Shape::Optional),
    ("x-kubernetes-int-or-string", Shape::Optional),
    ("x-kubernetes-list-map-keys", Shape::Optional),
    ("x-kubernetes-list-type", Shape::Any),
    ("x-kubernetes-map-type", Shape::Any),
    ("x-kubernetes-validations", Shape::Optional),
];

/// Drops unknown fields, and fields that are not stored. Adds the paths of unknown fields to
/// `unknown`. A null counts as absent, also for a `default`, because Go's decoder leaves a pointer
/// nil for null. Whole floats become integers, because Go decodes defaults, allowed values and bounds
/// and writes them anew.
pub fn decode(crd: &mut Value, unknown: &mut Vec<String>) {
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        members(spec, SPEC, "spec", unknown);
    }
    json::write_whole(crd);
}

fn members(object: &mut Map<String, Value>, fields: Fields, path: &str, unknown: &mut Vec<String>) {
    object.retain(|name, value| {
        let at = format!("{path}.{name}");
        match fields.iter().find(|(known, _)| known == name) {
            Some((_, shape)) => keep(value, *shape, &at, unknown),
            None => {
                unknown.push(at);
                false
            }
        }
    });
}

/// Decodes a value. Returns whether the value is stored.
fn keep(value: &mut Value, shape: Shape, path: &str, unknown: &mut Vec<String>) -> bool {
    match (shape, value) {
        (_, Value::Null) => return false,
        (Shape::Object(fields), Value::Object(object)) => members(object, fields, path, unknown),
        (Shape::Schema, Value::Object(object)) => members(object, SCHEMA, path, unknown),
        (Shape::List(fields), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(object) = item.as_object_mut() {
                    members(object, fields, &format!("{path}[{index}]"), unknown);
                }
            }
            return !items.is_empty() || path == "spec.versions";
        }
        (Shape::Schemas, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                keep(item, Shape::Schema, &format!("{path}[{index}]"), unknown);
            }
            return !items.is_empty();
        }
        (Shape::Named, Value::Object(schemas)) => {
            for (name, schema) in schemas.iter_mut() {
                keep(schema, Shape::Schema, &format!("{path}.{name}"), unknown);
            }
            return !schemas.is_empty();
        }
        (Shape::Optional, value) => return !is_zero(value),
        (_, _) => {}
    }
    true
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_listed_and_empty_fields_are_not_stored() {
        let mut crd = json!({"spec": {"group": "e.com", "bogus": 1, "preserveUnknownFields": false,
            "names": {"kind": "K", "shortNames": []},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object",
                "wrong": 1, "required": [], "default": {"a": 1}, "properties": {"spec":
                    {"type": "object", "properties": {}, "nullable": false, "tpye": "x"}}}},
                "subresources": {"status": {}}, "additionalPrinterColumns": []}]}});
        let mut unknown = Vec::new();
        decode(&mut crd, &mut unknown);
        let schema = "spec.versions[0].schema.openAPIV3Schema";
        assert_eq!(
            unknown,
            [
                "spec.bogus".to_owned(),
                format!("{schema}.properties.spec.tpye"),
                format!("{schema}.wrong"),
            ]
        );
        assert_eq!(
            crd,
            json!({"spec": {"group": "e.com", "names": {"kind": "K"}, "versions": [{"name": "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "default": {"a": 1},
                    "properties": {"spec": {"type": "object"}}}},
                "subresources": {"status": {}}}]}})
        );
    }
}
