//! Words: definitions of the size of real ones, and objects of their kinds.

use serde_json::{Map, Value, json};

const GROUP: &str = "many.bench.example.com";

/// The versions of each definition. Their schemas differ in descriptions only, as in most projects.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The number of parts of a schema: half of them are the same in all definitions, as the schema of a
/// Pod's template is in many projects.
const PARTS: u32 = 10;

const FIELDS: u32 = 12;

fn plural(number: u32) -> String {
    format!("things{number}")
}

/// Returns the paths of the collections of a kind, one for each version.
pub(crate) fn collections(number: u32) -> [String; 2] {
    VERSIONS.map(|version| {
        let plural = plural(number);
        format!("/apis/{GROUP}/{version}/namespaces/default/{plural}")
    })
}

/// Returns a definition of about 80 kB of JSON.
pub(crate) fn definition(number: u32) -> Value {
    let (plural, kind) = (plural(number), format!("Thing{number}"));
    let versions = VERSIONS.map(|version| {
        json!({
            "name": version, "served": true, "storage": version == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": parts(number, version)},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
            }}},
            "subresources": {"status": {}},
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase()},
            "versions": versions,
        },
    })
}

pub(crate) fn object(number: u32, version: usize) -> Value {
    let version = VERSIONS[version];
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": format!("Thing{number}"),
        "metadata": {"name": version},
        "spec": {"common0": {"field0": "a"}, format!("own{number}x1"): {"field0": "b", "field1": 7}},
    })
}

fn parts(number: u32, version: &str) -> Map<String, Value> {
    let all = (0..PARTS).map(|part| {
        let name = match part % 2 {
            0 => format!("common{part}"),
            _ => format!("own{number}x{part}"),
        };
        let fields =
            (0..FIELDS).map(|field| (format!("field{field}"), schema(&name, field, version)));
        let fields: Map<String, Value> = fields.collect();
        let rule = json!({"rule": "!has(self.field0) || self.field0.size() < 60", "message": name});
        let schema = json!({
            "type": "object", "properties": fields, "x-kubernetes-validations": [rule],
        });
        (name, schema)
    });
    all.collect()
}

fn schema(part: &str, field: u32, version: &str) -> Value {
    let about = format!("Field {field} of {part} in {version}. ").repeat(6);
    match field % 4 {
        0 => {
            json!({"type": "string", "maxLength": 63, "pattern": "^[a-z]+$", "description": about})
        }
        1 => json!({"type": "integer", "minimum": 0, "format": "int32", "description": about}),
        2 => json!({"type": "array", "description": about, "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "required": [part], "properties": {
                part: {"type": "string", "enum": ["A", "B"], "description": about}}}}),
        _ => json!({"type": "object", "description": about,
            "additionalProperties": {"type": "string", "description": part}}),
    }
}
