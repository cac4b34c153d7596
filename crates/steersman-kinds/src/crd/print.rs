//! Words: prints a schema for messages, as upstream prints its Go type.

use serde_json::Value;

use super::rules::{escaped, printed};

/// How a field of a schema is printed.
#[derive(Debug, Clone, Copy)]
enum Form {
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
const FIELDS: &[(&str, &str, Form)] = &[
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Whole),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Whole),
    ("Maximum", "maximum", Form::Whole),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Whole),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Whole),
    ("MinLength", "minLength", Form::Whole),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Whole),
    ("MinItems", "minItems", Form::Whole),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Whole),
    ("Enum", "enum", Form::Whole),
    ("MaxProperties", "maxProperties", Form::Whole),
    ("MinProperties", "minProperties", Form::Whole),
    ("Required", "required", Form::Whole),
    ("Items", "items", Form::Items),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Not),
    ("Properties", "properties", Form::Named),
    (
        "AdditionalProperties",
        "additionalProperties",
        Form::Additional,
    ),
    ("PatternProperties", "patternProperties", Form::Named),
    ("Dependencies", "dependencies", Form::Whole),
    ("AdditionalItems", "additionalItems", Form::Additional),
    ("Definitions", "definitions", Form::Named),
    ("ExternalDocs", "externalDocs", Form::Whole),
    ("Example", "example", Form::Whole),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Form::Whole,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        Form::Flag,
    ),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Whole),
    ("XListType", "x-kubernetes-list-type", Form::Whole),
    ("XMapType", "x-kubernetes-map-type", Form::Whole),
    ("XValidations", "x-kubernetes-validations", Form::Rules),
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
    let print = |(name, own, form): &(&str, &str, Form)| {
        format!("\"{name}\":{}", field(&node[*own], *form))
    };
    let fields: Vec<String> = FIELDS.iter().map(print).collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns the error of a root with keywords that a status subresource forbids, if there is one.
pub(super) fn beyond_root(node: &Value) -> Option<String> {
    let said = |(name, own, form): &&(&str, &str, Form)| {
        !AT_ROOT.contains(name) && field(&node[*own], *form) != field(&Value::Null, *form)
    };
    FIELDS.iter().find(said)?;
    let known = AT_ROOT.join(" ");
    Some(format!(
        "only [{known}] fields are allowed at the root of the schema if the status subresource is enabled"
    ))
}

fn field(value: &Value, form: Form) -> String {
    if value.is_null() && !matches!(form, Form::Text | Form::Flag) {
        return "null".to_owned();
    }
    match form {
        Form::Text => escaped(value.as_str().unwrap_or_default()),
        Form::Flag => value.as_bool().unwrap_or_default().to_string(),
        Form::Whole => value.to_string(),
        Form::Not => schema(value),
        Form::Schemas => {
            let all: Vec<String> = value.as_array().into_iter().flatten().map(schema).collect();
            format!("[{}]", all.join(","))
        }
        Form::Named => {
            let all = value.as_object().into_iter().flatten();
            let all: Vec<String> = all
                .map(|(name, node)| format!("{}:{}", escaped(name), schema(node)))
                .collect();
            format!("{{{}}}", all.join(","))
        }
        Form::Items if value.is_array() => {
            let all = field(value, Form::Schemas);
            format!("{{\"Schema\":null,\"JSONSchemas\":{all}}}")
        }
        Form::Items => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        Form::Additional => match value.as_bool() {
            Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        },
        Form::Rules => {
            let all = value.as_array().into_iter().flatten();
            let all: Vec<String> = all.map(printed).collect();
            format!("[{}]", all.join(","))
        }
    }
}
