//! Machine: the fields of a CustomResourceDefinition, and which of them are stored.

use serde_json::{Map, Value};
use steersman_apimachinery::json;

use super::print::FIELDS;
use crate::fields::fill::is_nothing;
use crate::fields::go_value::GoType;
use SchemaShape::{Any, List, Named, Object, Optional, Schema, Schemas};

#[derive(Debug, Clone, Copy)]
enum SchemaShape {
    /// Scalars, and values that are not decoded further.
    Any,
    /// Like `Any`, but an empty, false or zero value is not stored.
    Optional,
    Object(SchemaFields),
    List(SchemaFields),
    /// A schema, or another value that JSON schema allows in the same field, such as `true`.
    Schema,
    Schemas,
    /// Schemas by name.
    Named,
}

type SchemaFields = &'static [(&'static str, SchemaShape)];

const SPEC: SchemaFields = &[
    ("group", Any),
    ("scope", Any),
    ("names", Object(NAMES)),
    ("versions", List(VERSION)),
    ("conversion", Object(CONVERSION)),
    ("preserveUnknownFields", Optional),
];

const NAMES: SchemaFields = &[
    ("plural", Any),
    ("singular", Optional),
    ("shortNames", Optional),
    ("kind", Any),
    ("listKind", Optional),
    ("categories", Optional),
];

const CONVERSION: SchemaFields = &[("strategy", Any), ("webhook", Any)];

const VERSION: SchemaFields = &[
    ("name", Any),
    ("served", Any),
    ("storage", Any),
    ("deprecated", Optional),
    ("deprecationWarning", Any),
    ("schema", Object(&[("openAPIV3Schema", Schema)])),
    ("subresources", Object(SUBRESOURCES)),
    ("additionalPrinterColumns", List(COLUMN)),
    ("selectableFields", List(&[("jsonPath", Any)])),
];

const SUBRESOURCES: SchemaFields = &[("status", Any), ("scale", Object(SCALE))];

const SCALE: SchemaFields = &[
    ("specReplicasPath", Any),
    ("statusReplicasPath", Any),
    ("labelSelectorPath", Any),
];

const COLUMN: SchemaFields = &[
    ("name", Any),
    ("type", Any),
    ("format", Optional),
    ("description", Optional),
    ("priority", Optional),
    ("jsonPath", Any),
];

/// The keywords of a schema that are not stored if they are empty, other than texts and flags.
const OMITTED: &[&str] = &[
    "dependencies", "enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
];

fn of_schema(name: &str) -> Option<SchemaShape> {
    let (_, kind) = FIELDS.iter().find(|(known, _)| *known == name)?;
    Some(match kind {
        _ if OMITTED.contains(&name) => Optional,
        GoType::Text | GoType::Flag => Optional,
        GoType::Items(_) | GoType::Pointer(_) | GoType::Additional(_) => Schema,
        GoType::List(_) => Schemas,
        GoType::Map(_) => Named,
        _ => Any,
    })
}

fn shape_in(fields: SchemaFields) -> impl Fn(&str) -> Option<SchemaShape> {
    move |name| {
        let found = fields.iter().find(|(known, _)| *known == name);
        found.map(|(_, shape)| *shape)
    }
}

/// Drops unknown fields, and fields that are not stored. Adds the paths of unknown fields to `unknown`. A null counts
/// as absent, also for a `default`, because Go's decoder leaves a pointer nil for null. Whole floats become integers,
/// because Go decodes defaults, allowed values and bounds and writes them anew.
pub fn decode(crd: &mut Value, unknown: &mut Vec<String>) {
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        members(spec, &shape_in(SPEC), "spec", unknown);
    }
    json::write_whole(crd);
}

fn members(
    object: &mut Map<String, Value>,
    shape_of: &dyn Fn(&str) -> Option<SchemaShape>,
    path: &str,
    unknown: &mut Vec<String>,
) {
    object.retain(|name, value| {
        let at = format!("{path}.{name}");
        match shape_of(name) {
            Some(shape) => keep(value, shape, &at, unknown),
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
        (Object(fields), Value::Object(object)) => {
            members(object, &shape_in(fields), path, unknown);
        }
        (Schema, Value::Object(object)) => members(object, &of_schema, path, unknown),
        (List(fields), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                if let Some(object) = item.as_object_mut() {
                    let path = format!("{path}[{index}]");
                    members(object, &shape_in(fields), &path, unknown);
                }
            }
            return !items.is_empty() || path == "spec.versions";
        }
        (Schemas, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                keep(item, Schema, &format!("{path}[{index}]"), unknown);
            }
            return !items.is_empty();
        }
        (Named, Value::Object(schemas)) => {
            for (name, schema) in schemas.iter_mut() {
                keep(schema, Schema, &format!("{path}.{name}"), unknown);
            }
            return !schemas.is_empty();
        }
        (Optional, value) => return !is_zero(value),
        (_, _) => {}
    }
    true
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        value => is_nothing(value) || value == "",
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
