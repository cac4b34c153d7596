//! Words: prints a schema for messages, as upstream prints its Go type.

use serde_json::Value;

use super::cel_rules::{escaped, printed};

/// How a field of a schema is printed.
#[derive(Debug, Clone, Copy)]
enum FieldFormat {
    /// A text; empty if absent.
    Text,
    /// A boolean; false if absent.
    Flag,
    /// The value itself; null if absent.
    Whole,
    Schemas,
    Named,
    Items,
    Additional,
    Not,
    Rules,
}

/// The fields of a schema in upstream's order: the name in Go, and the name in a definition.
const FIELDS: &[(&str, &str, FieldFormat)] = &[
    ("ID", "id", FieldFormat::Text),
    ("Schema", "$schema", FieldFormat::Text),
    ("Ref", "$ref", FieldFormat::Whole),
    ("Description", "description", FieldFormat::Text),
    ("Type", "type", FieldFormat::Text),
    ("Nullable", "nullable", FieldFormat::Flag),
    ("Format", "format", FieldFormat::Text),
    ("Title", "title", FieldFormat::Text),
    ("Default", "default", FieldFormat::Whole),
    ("Maximum", "maximum", FieldFormat::Whole),
    ("ExclusiveMaximum", "exclusiveMaximum", FieldFormat::Flag),
    ("Minimum", "minimum", FieldFormat::Whole),
    ("ExclusiveMinimum", "exclusiveMinimum", FieldFormat::Flag),
    ("MaxLength", "maxLength", FieldFormat::Whole),
    ("MinLength", "minLength", FieldFormat::Whole),
    ("Pattern", "pattern", FieldFormat::Text),
    ("MaxItems", "maxItems", FieldFormat::Whole),
    ("MinItems", "minItems", FieldFormat::Whole),
    ("UniqueItems", "uniqueItems", FieldFormat::Flag),
    ("MultipleOf", "multipleOf", FieldFormat::Whole),
    ("Enum", "enum", FieldFormat::Whole),
    ("MaxProperties", "maxProperties", FieldFormat::Whole),
    ("MinProperties", "minProperties", FieldFormat::Whole),
    ("Required", "required", FieldFormat::Whole),
    ("Items", "items", FieldFormat::Items),
    ("AllOf", "allOf", FieldFormat::Schemas),
    ("OneOf", "oneOf", FieldFormat::Schemas),
    ("AnyOf", "anyOf", FieldFormat::Schemas),
    ("Not", "not", FieldFormat::Not),
    ("Properties", "properties", FieldFormat::Named),
    (
        "AdditionalProperties",
        "additionalProperties",
        FieldFormat::Additional,
    ),
    ("PatternProperties", "patternProperties", FieldFormat::Named),
    ("Dependencies", "dependencies", FieldFormat::Whole),
    (
        "AdditionalItems",
        "additionalItems",
        FieldFormat::Additional,
    ),
    ("Definitions", "definitions", FieldFormat::Named),
    ("ExternalDocs", "externalDocs", FieldFormat::Whole),
    ("Example", "example", FieldFormat::Whole),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        FieldFormat::Whole,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        FieldFormat::Flag,
    ),
    (
        "XIntOrString",
        "x-kubernetes-int-or-string",
        FieldFormat::Flag,
    ),
    (
        "XListMapKeys",
        "x-kubernetes-list-map-keys",
        FieldFormat::Whole,
    ),
    ("XListType", "x-kubernetes-list-type", FieldFormat::Whole),
    ("XMapType", "x-kubernetes-map-type", FieldFormat::Whole),
    (
        "XValidations",
        "x-kubernetes-validations",
        FieldFormat::Rules,
    ),
];

/// The keywords that the root of a schema with a status subresource may have.
const AT_ROOT: &[&str] = &[
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Prints a schema as JSON of upstream's Go type.
pub(super) fn schema(node: &Value) -> String {
    let print = |(name, own, form): &(&str, &str, FieldFormat)| {
        format!("\"{name}\":{}", field(&node[*own], *form))
    };
    let fields: Vec<String> = FIELDS.iter().map(print).collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns the error of a root with keywords that a status subresource forbids, if there is one.
pub(super) fn beyond_root(node: &Value) -> Option<String> {
    let said = |(name, own, form): &&(&str, &str, FieldFormat)| {
        !AT_ROOT.contains(name) && field(&node[*own], *form) != field(&Value::Null, *form)
    };
    FIELDS.iter().find(said)?;
    let known = AT_ROOT.join(" ");
    Some(format!(
        "only [{known}] fields are allowed at the root of the schema if the status subresource is enabled"
    ))
}

fn field(value: &Value, form: FieldFormat) -> String {
    if value.is_null() && !matches!(form, FieldFormat::Text | FieldFormat::Flag) {
        return "null".to_owned();
    }
    match form {
        FieldFormat::Text => escaped(value.as_str().unwrap_or_default()),
        FieldFormat::Flag => value.as_bool().unwrap_or_default().to_string(),
        FieldFormat::Whole => value.to_string(),
        FieldFormat::Not => schema(value),
        FieldFormat::Schemas => {
            let all: Vec<String> = value.as_array().into_iter().flatten().map(schema).collect();
            format!("[{}]", all.join(","))
        }
        FieldFormat::Named => {
            let all = value.as_object().into_iter().flatten();
            let all: Vec<String> = all
                .map(|(name, node)| format!("{}:{}", escaped(name), schema(node)))
                .collect();
            format!("{{{}}}", all.join(","))
        }
        FieldFormat::Items if value.is_array() => {
            let all = field(value, FieldFormat::Schemas);
            format!("{{\"Schema\":null,\"JSONSchemas\":{all}}}")
        }
        FieldFormat::Items => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        FieldFormat::Additional => match value.as_bool() {
            Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        },
        FieldFormat::Rules => {
            let all = value.as_array().into_iter().flatten();
            let all: Vec<String> = all.map(printed).collect();
            format!("[{}]", all.join(","))
        }
    }
}
