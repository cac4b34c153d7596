//! Words: prints a value as Go prints its internal type, with Go's names and with unset fields.
//!
//! Upstream: `field.Error` encodes a struct as JSON. Kubernetes' internal types have no JSON names,
//! so the names are those of the Go fields, in the order of their declaration.

use std::iter::once;

use serde_json::Value;

use steersman_apimachinery::go::{self, capital};

use super::fill::elements;

/// How Go prints a type. A struct prints all its fields, in the order of their declaration.
pub(crate) enum GoType {
    /// The value itself, or `null`.
    Plain,
    /// A text; empty if absent.
    Text,
    /// A number; 0 if absent.
    Number,
    /// A boolean; false if absent.
    Flag,
    List(&'static Self),
    Map(&'static Self),
    /// A schema or a list of schemas.
    Items(&'static Self),
    /// A schema, or whether every value is allowed.
    Additional(&'static Self),
    /// A struct that may be absent.
    Pointer(&'static Self),
    /// A struct: for each field its name in the API, and its type.
    Struct(&'static [(&'static str, Self)]),
    /// A struct with tags for JSON in its Go type, so that its fields have the names of the API.
    Tagged(&'static [(&'static str, Self)]),
}

use GoType::{Additional, Flag, Items, List, Map, Number, Plain, Pointer, Struct, Tagged, Text};

const REQUIREMENT: GoType = Struct(&[("key", Text), ("operator", Text), ("values", Plain)]);

pub(crate) const TERM: GoType = Struct(&[
    ("matchExpressions", List(&REQUIREMENT)),
    ("matchFields", List(&REQUIREMENT)),
]);

pub(crate) const NODE_TERMS: GoType = List(&TERM);

pub(crate) const NODE_SELECTOR: GoType = Struct(&[("nodeSelectorTerms", NODE_TERMS)]);

pub(crate) const TOLERATION: GoType = Struct(&[
    ("key", Text),
    ("operator", Text),
    ("value", Text),
    ("effect", Text),
    ("tolerationSeconds", Plain),
]);

pub(crate) fn print(kind: &GoType, value: &Value) -> String {
    go::escape_html(&encode(kind, value))
}

fn encode(kind: &GoType, value: &Value) -> String {
    match kind {
        Text if value.is_null() => "\"\"".to_owned(),
        Number if value.is_null() => "0".to_owned(),
        Flag if value.is_null() => "false".to_owned(),
        Plain | Text | Number | Flag => value.to_string(),
        List(_) | Map(_) | Items(_) | Additional(_) | Pointer(_) if value.is_null() => {
            "null".to_owned()
        }
        Pointer(inner) => encode(inner, value),
        List(inner) => {
            let all: Vec<String> = elements(value)
                .iter()
                .map(|one| encode(inner, one))
                .collect();
            format!("[{}]", all.join(","))
        }
        Map(inner) => {
            let all = value.as_object().into_iter().flatten();
            object(all.map(|(key, one)| (Value::from(key.as_str()), encode(inner, one))))
        }
        Items(inner) if value.is_array() => {
            let schemas = encode(&List(inner), value);
            format!("{{\"Schema\":null,\"JSONSchemas\":{schemas}}}")
        }
        Items(inner) => format!(
            "{{\"Schema\":{},\"JSONSchemas\":null}}",
            encode(inner, value)
        ),
        Additional(inner) => match value.as_bool() {
            Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", encode(inner, value)),
        },
        Struct(fields) => structure(fields, value, go_name),
        Tagged(fields) => structure(fields, value, str::to_owned),
    }
}

fn structure(fields: &[(&str, GoType)], value: &Value, name_of: fn(&str) -> String) -> String {
    object(fields.iter().map(|(name, kind)| {
        let member = value.get(name).unwrap_or(&Value::Null);
        (Value::from(name_of(name)), encode(kind, member))
    }))
}

/// Returns the name in Go of a field: `nodeID` is `NodeID`, and `x-kubernetes-list-type` is `XListType`.
pub(crate) fn go_name(field: &str) -> String {
    match field {
        "apiGroup" => "APIGroup".to_owned(),
        "seLinuxOptions" => "SELinuxOptions".to_owned(),
        "cel" | "id" => field.to_uppercase(),
        _ => match field.strip_prefix("x-kubernetes-") {
            Some(words) => once("x").chain(words.split('-')).map(capital).collect(),
            None => capital(field.trim_start_matches('$')),
        },
    }
}

fn object(members: impl Iterator<Item = (Value, String)>) -> String {
    let members: Vec<String> = members
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_names_in_go() {
        for (field, name) in [
            ("nodeID", "NodeID"),
            ("apiGroup", "APIGroup"),
            ("cel", "CEL"),
            ("$ref", "Ref"),
            ("openAPIV3Schema", "OpenAPIV3Schema"),
            (
                "x-kubernetes-preserve-unknown-fields",
                "XPreserveUnknownFields",
            ),
        ] {
            assert_eq!(go_name(field), name);
        }
    }
}
