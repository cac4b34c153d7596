//! Words: prints a schema for messages, as upstream prints its Go type.

use serde_json::Value;

use super::cel_rules::RULE;
use crate::fields::go_value::GoType::{
    self, Additional, Flag, Items, List, Map, Plain, Pointer, Struct, Text,
};
use crate::fields::go_value::print;

pub(super) static SCHEMA: GoType = Struct(&FIELDS);

pub(super) static VERSIONS: GoType = List(&Struct(&[
    ("Name", "name", Text),
    ("Served", "served", Flag),
    ("Storage", "storage", Flag),
    ("Deprecated", "deprecated", Flag),
    ("DeprecationWarning", "deprecationWarning", Plain),
    (
        "Schema",
        "schema",
        Pointer(&Struct(&[(
            "OpenAPIV3Schema",
            "openAPIV3Schema",
            Pointer(&SCHEMA),
        )])),
    ),
    ("Subresources", "subresources", Plain),
    (
        "AdditionalPrinterColumns", "additionalPrinterColumns", Plain,
    ),
    ("SelectableFields", "selectableFields", Plain),
]));

pub(super) static FIELDS: [(&str, &str, GoType); 44] = [
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Plain),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", Flag),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Plain),
    ("Maximum", "maximum", Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Flag),
    ("Minimum", "minimum", Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Flag),
    ("MaxLength", "maxLength", Plain),
    ("MinLength", "minLength", Plain),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Plain),
    ("MinItems", "minItems", Plain),
    ("UniqueItems", "uniqueItems", Flag),
    ("MultipleOf", "multipleOf", Plain),
    ("Enum", "enum", Plain),
    ("MaxProperties", "maxProperties", Plain),
    ("MinProperties", "minProperties", Plain),
    ("Required", "required", Plain),
    ("Items", "items", Items(&SCHEMA)),
    ("AllOf", "allOf", List(&SCHEMA)),
    ("OneOf", "oneOf", List(&SCHEMA)),
    ("AnyOf", "anyOf", List(&SCHEMA)),
    ("Not", "not", Pointer(&SCHEMA)),
    ("Properties", "properties", Map(&SCHEMA)),
    (
        "AdditionalProperties",
        "additionalProperties",
        Additional(&SCHEMA),
    ),
    ("PatternProperties", "patternProperties", Map(&SCHEMA)),
    ("Dependencies", "dependencies", Plain),
    ("AdditionalItems", "additionalItems", Additional(&SCHEMA)),
    ("Definitions", "definitions", Map(&SCHEMA)),
    ("ExternalDocs", "externalDocs", Plain),
    ("Example", "example", Plain),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Plain,
    ),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Plain),
    ("XListType", "x-kubernetes-list-type", Plain),
    ("XMapType", "x-kubernetes-map-type", Plain),
    ("XValidations", "x-kubernetes-validations", List(&RULE)),
];

/// The keywords that the root of a schema with a status subresource may have.
const AT_ROOT: &[&str] = &[
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum",
    "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems",
    "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
    "XPreserveUnknownFields", "XValidations",
];

/// Returns the error of a root with keywords that a status subresource forbids, if there is one.
pub(super) fn beyond_root(node: &Value) -> Option<String> {
    let said = |(name, own, kind): &&(&str, &str, GoType)| {
        !AT_ROOT.contains(name) && print(kind, &node[*own]) != print(kind, &Value::Null)
    };
    FIELDS.iter().find(said)?;
    let known = AT_ROOT.join(" ");
    Some(format!(
        "only [{known}] fields are allowed at the root of the schema if the status subresource is enabled"
    ))
}
