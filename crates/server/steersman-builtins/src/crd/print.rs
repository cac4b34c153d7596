//! Words: prints a schema for messages, as upstream prints its Go type.

use serde_json::Value;

use super::cel_rules::RULE;
use crate::fields::go_value::GoType::{
    self, Additional, Flag, Items, List, Map, Plain, Pointer, Struct, Text,
};
use crate::fields::go_value::{go_name, print};

pub(super) static SCHEMA: GoType = Struct(&FIELDS);

pub(super) static VERSIONS: GoType = List(&Struct(&[
    ("name", Text),
    ("served", Flag),
    ("storage", Flag),
    ("deprecated", Flag),
    ("deprecationWarning", Plain),
    (
        "schema",
        Pointer(&Struct(&[("openAPIV3Schema", Pointer(&SCHEMA))])),
    ),
    ("subresources", Plain),
    ("additionalPrinterColumns", Plain),
    ("selectableFields", Plain),
]));

pub(super) static FIELDS: [(&str, GoType); 44] = [
    ("id", Text),
    ("$schema", Text),
    ("$ref", Plain),
    ("description", Text),
    ("type", Text),
    ("nullable", Flag),
    ("format", Text),
    ("title", Text),
    ("default", Plain),
    ("maximum", Plain),
    ("exclusiveMaximum", Flag),
    ("minimum", Plain),
    ("exclusiveMinimum", Flag),
    ("maxLength", Plain),
    ("minLength", Plain),
    ("pattern", Text),
    ("maxItems", Plain),
    ("minItems", Plain),
    ("uniqueItems", Flag),
    ("multipleOf", Plain),
    ("enum", Plain),
    ("maxProperties", Plain),
    ("minProperties", Plain),
    ("required", Plain),
    ("items", Items(&SCHEMA)),
    ("allOf", List(&SCHEMA)),
    ("oneOf", List(&SCHEMA)),
    ("anyOf", List(&SCHEMA)),
    ("not", Pointer(&SCHEMA)),
    ("properties", Map(&SCHEMA)),
    ("additionalProperties", Additional(&SCHEMA)),
    ("patternProperties", Map(&SCHEMA)),
    ("dependencies", Plain),
    ("additionalItems", Additional(&SCHEMA)),
    ("definitions", Map(&SCHEMA)),
    ("externalDocs", Plain),
    ("example", Plain),
    ("x-kubernetes-preserve-unknown-fields", Plain),
    ("x-kubernetes-embedded-resource", Flag),
    ("x-kubernetes-int-or-string", Flag),
    ("x-kubernetes-list-map-keys", Plain),
    ("x-kubernetes-list-type", Plain),
    ("x-kubernetes-map-type", Plain),
    ("x-kubernetes-validations", List(&RULE)),
];

/// The keywords that the root of a schema with a status subresource may have.
const AT_ROOT: &[&str] = &[
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Returns the error of a root with keywords that a status subresource forbids, if there is one.
pub(super) fn beyond_root(node: &Value) -> Option<String> {
    let said = |(name, kind): &&(&str, GoType)| {
        !AT_ROOT.contains(name) && print(kind, &node[*name]) != print(kind, &Value::Null)
    };
    FIELDS.iter().find(said)?;
    let names: Vec<String> = AT_ROOT.iter().map(|name| go_name(name)).collect();
    let known = names.join(" ");
    Some(format!(
        "only [{known}] fields are allowed at the root of the schema if the status subresource is enabled"
    ))
}
