//! Machine: the fields of a CustomResourceDefinition, and which of them are stored.

use serde_json::{Map, Value};
use steersman_apimachinery::json;

/// The type of a field of a definition.
#[derive(Debug, Clone, Copy)]
enum SchemaShape {
    /// Scalars, and values that are not decoded further.
    Any,
    /// Like `Any`, but an empty, false or zero value is not stored.
    Optional,
    /// An object with these fields.
    Object(SchemaFields),
    /// A list of objects with these fields.
    List(SchemaFields),
    /// A schema, or another value that JSON schema allows in the same field, such as `true`.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
}

type SchemaFields = &'static [(&'static str, SchemaShape)];

const SPEC: SchemaFields = &[
    ("group", SchemaShape::Any),
    ("scope", SchemaShape::Any),
    ("names", SchemaShape::Object(NAMES)),
    ("versions", SchemaShape::List(VERSION)),
    ("conversion", SchemaShape::Object(CONVERSION)),
    ("preserveUnknownFields", SchemaShape::Optional),
];

const NAMES: SchemaFields = &[
    ("plural", SchemaShape::Any),
    ("singular", SchemaShape::Optional),
    ("shortNames", SchemaShape::Optional),
    ("kind", SchemaShape::Any),
    ("listKind", SchemaShape::Optional),
    ("categories", SchemaShape::Optional),
];

const CONVERSION: SchemaFields = &[
    ("strategy", SchemaShape::Any),
    ("webhook", SchemaShape::Any),
];

const VERSION: SchemaFields = &[
    ("name", SchemaShape::Any),
    ("served", SchemaShape::Any),
    ("storage", SchemaShape::Any),
    ("deprecated", SchemaShape::Optional),
    ("deprecationWarning", SchemaShape::Any),
    (
        "schema",
        SchemaShape::Object(&[("openAPIV3Schema", SchemaShape::Schema)]),
    ),
    ("subresources", SchemaShape::Object(SUBRESOURCES)),
    ("additionalPrinterColumns", SchemaShape::List(COLUMN)),
    (
        "selectableFields",
        SchemaShape::List(&[("jsonPath", SchemaShape::Any)]),
    ),
];

const SUBRESOURCES: SchemaFields = &[
    ("status", SchemaShape::Any),
    ("scale", SchemaShape::Object(SCALE)),
];

const SCALE: SchemaFields = &[
    ("specReplicasPath", SchemaShape::Any),
    ("statusReplicasPath", SchemaShape::Any),
    ("labelSelectorPath", SchemaShape::Any),
];

const COLUMN: SchemaFields = &[
    ("name", SchemaShape::Any),
    ("type", SchemaShape::Any),
    ("format", SchemaShape::Optional),
    ("description", SchemaShape::Optional),
    ("priority", SchemaShape::Optional),
    ("jsonPath", SchemaShape::Any),
];

const SCHEMA: SchemaFields = &[
    ("id", SchemaShape::Optional),
    ("$schema", SchemaShape::Optional),
    ("$ref", SchemaShape::Any),
    ("description", SchemaShape::Optional),
    ("type", SchemaShape::Optional),
    ("format", SchemaShape::Optional),
    ("title", SchemaShape::Optional),
    ("default", SchemaShape::Any),
    ("maximum", SchemaShape::Any),
    ("exclusiveMaximum", SchemaShape::Optional),
    ("minimum", SchemaShape::Any),
    ("exclusiveMinimum", SchemaShape::Optional),
    ("maxLength", SchemaShape::Any),
    ("minLength", SchemaShape::Any),
    ("pattern", SchemaShape::Optional),
    ("maxItems", SchemaShape::Any),
    ("minItems", SchemaShape::Any),
    ("uniqueItems", SchemaShape::Optional),
    ("multipleOf", SchemaShape::Any),
    ("enum", SchemaShape::Optional),
    ("maxProperties", SchemaShape::Any),
    ("minProperties", SchemaShape::Any),
    ("required", SchemaShape::Optional),
    ("items", SchemaShape::Schema),
    ("allOf", SchemaShape::Schemas),
    ("oneOf", SchemaShape::Schemas),
    ("anyOf", SchemaShape::Schemas),
    ("not", SchemaShape::Schema),
    ("properties", SchemaShape::Named),
    ("additionalProperties", SchemaShape::Schema),
    ("patternProperties", SchemaShape::Named),
    ("dependencies", SchemaShape::Optional),
    ("additionalItems", SchemaShape::Schema),
    ("definitions", SchemaShape::Named),
    ("externalDocs", SchemaShape::Any),
    ("example", SchemaShape::Any),
    ("nullable", SchemaShape::Optional),
    ("x-kubernetes-preserve-unknown-fields", SchemaShape::Any),
    ("x-kubernetes-embedded-resource", SchemaShape::Optional),
    ("x-kubernetes-int-or-string", SchemaShape::Optional),
    ("x-kubernetes-list-map-keys", SchemaShape::Optional),
    ("x-kubernetes-list-type", SchemaShape::Any),
    ("x-kubernetes-map-type", SchemaShape::Any),
    ("x-kubernetes-validations", SchemaShape::Optional),
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

fn members(
    object: &mut Map<String, Value>,
    fields: SchemaFields,
    path: &str,
    unknown: &mut Vec<String>,
) {
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
fn keep(value: &mut Value, shape: SchemaShape, path: &str, unknown: &mut Vec<String>) -> bool {
    match (shape, value) {
        (_, Value::Null) => return false,
        (SchemaShape::Object(fields), Value::Object(object)) => {
            members(object, fields, path, unknown)
        }
        (SchemaShape::Schema, Value::Object(object)) => members(object, SCHEMA, path, unknown),
        (SchemaShape::List(fields), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(object) = item.as_object_mut() {
                    members(object, fields, &format!("{path}[{index}]"), unknown);
                }
            }
            return !items.is_empty() || path == "spec.versions";
        }
        (SchemaShape::Schemas, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                keep(
                    item,
                    SchemaShape::Schema,
                    &format!("{path}[{index}]"),
                    unknown,
                );
            }
            return !items.is_empty();
        }
        (SchemaShape::Named, Value::Object(schemas)) => {
            for (name, schema) in schemas.iter_mut() {
                keep(
                    schema,
                    SchemaShape::Schema,
                    &format!("{path}.{name}"),
                    unknown,
                );
            }
            return !schemas.is_empty();
        }
        (SchemaShape::Optional, value) => return !is_zero(value),
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
