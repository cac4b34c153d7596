//! Machine: writes OpenAPI v3 schemas of Kubernetes' own types, to which `Descriptions` adds their descriptions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::{self, Type, TypeNode};
use super::{ListKind, ListPatch, Scalar};

/// Adds the schema of a built-in kind and of every type that it references to `schemas`, under the component names of
/// kube-apiserver. Returns the component name of the kind, or `None` for a kind without a type in the table.
pub fn describe(api_version: &str, kind: &str, schemas: &mut Map<String, Value>) -> Option<String> {
    let root = table::kind(api_version, kind)?;
    Some(describe_named(root.name, schemas))
}

/// Adds the schema of a built-in type, for instance `meta.v1.Status`, and of every type that it
/// references. Returns its component name.
pub fn describe_named(root: &'static str, schemas: &mut Map<String, Value>) -> String {
    let mut waiting = vec![root];
    while let Some(name) = waiting.pop() {
        let component = component(name);
        if schemas.contains_key(&component) {
            continue;
        }
        let mut named = BTreeSet::new();
        let schema = table::named(name).map_or_else(
            || json!({ "type": "object" }),
            |found| object(found, &mut named),
        );
        schemas.insert(component, schema);
        waiting.extend(named);
    }
    for (name, schema) in shared() {
        schemas.entry(name).or_insert(schema);
    }
    component(root)
}

/// Returns the schemas of the scalars that OpenAPI describes as components.
fn shared() -> [(&'static str, Value); 3] {
    [
        (
            INT_OR_STRING,
            json!({
                "oneOf": [{ "type": "integer" }, { "type": "string" }],
                "format": "int-or-string",
            }),
        ),
        (
            QUANTITY,
            json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        ),
        (TIME, json!({ "type": "string", "format": "date-time" })),
    ]
}

const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// Returns the OpenAPI component name of a type of the table.
fn component(name: &str) -> String {
    let root = match name.split('.').next().unwrap_or_default() {
        "meta" => "io.k8s.apimachinery.pkg.apis",
        "runtime" => "io.k8s.apimachinery.pkg",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{root}.{name}")
}

fn reference(component: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{component}") })
}

fn object(ty: &'static Type, named: &mut BTreeSet<&'static str>) -> Value {
    let fields = ty.fields.iter();
    let properties: Map<String, Value> = fields
        .map(|(name, node)| ((*name).to_owned(), schema(node, named)))
        .collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !ty.required.is_empty() {
        schema["required"] = json!(ty.required);
    }
    if ty.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

// The recursion is as deep as one line of the table nests lists and maps; references to other types are collected in
// `named` instead of followed.
fn schema(node: &'static TypeNode, named: &mut BTreeSet<&'static str>) -> Value {
    match node {
        TypeNode::Scalar(scalar) => match scalar {
            Scalar::String => json!({ "type": "string" }),
            Scalar::Integer => json!({ "type": "integer", "format": "int64" }),
            Scalar::Number => json!({ "type": "number", "format": "double" }),
            Scalar::Boolean => json!({ "type": "boolean" }),
            Scalar::Bytes => json!({ "type": "string", "format": "byte" }),
            Scalar::Time => reference(TIME),
            Scalar::Quantity => reference(QUANTITY),
            Scalar::IntOrString => reference(INT_OR_STRING),
        },
        TypeNode::Int32 => json!({ "type": "integer", "format": "int32" }),
        TypeNode::Any => json!({ "type": "object" }),
        TypeNode::Ref(other) => {
            named.insert(other.name);
            reference(&component(other.name))
        }
        TypeNode::List {
            items, kind, patch, ..
        } => {
            let mut list = json!({ "type": "array", "items": schema(items, named) });
            list["x-kubernetes-list-type"] = match kind {
                ListKind::Atomic => "atomic".into(),
                ListKind::Set => "set".into(),
                ListKind::Map(keys) => {
                    list["x-kubernetes-list-map-keys"] = json!(keys);
                    "map".into()
                }
            };
            match patch {
                ListPatch::Replace => {}
                ListPatch::Union => list["x-kubernetes-patch-strategy"] = "merge".into(),
                ListPatch::MergeBy(key) => {
                    list["x-kubernetes-patch-strategy"] = "merge".into();
                    list["x-kubernetes-patch-merge-key"] = (*key).into();
                }
            }
            list
        }
        TypeNode::Map { values, atomic } => {
            let mut map =
                json!({ "type": "object", "additionalProperties": schema(values, named) });
            if *atomic {
                map["x-kubernetes-map-type"] = "atomic".into();
            }
            map
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_described_with_all_referenced_types() {
        let mut schemas = Map::new();
        let pod = describe("v1", "Pod", &mut schemas);
        assert_eq!(pod.as_deref(), Some("io.k8s.api.core.v1.Pod"));
        let text = Value::Object(schemas.clone()).to_string();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(schemas.contains_key(name), "{name}");
        }
        let container = &schemas["io.k8s.api.core.v1.Container"];
        assert_eq!(container["required"], json!(["name"]));
        let ports = &container["properties"]["ports"];
        assert_eq!(
            ports["x-kubernetes-list-map-keys"],
            json!(["containerPort", "protocol"])
        );
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
        assert_eq!(describe("example.com/v1", "Website", &mut schemas), None);
    }
}
