//! Machine: encodes parts of an OpenAPI v2 document as gnostic's protobuf messages.
//!
//! Kubernetes' servers and clients use this encoding. Field numbers are those of gnostic's `OpenAPIv2.proto`. As in
//! every message of proto3, a zero number, `false` and an empty text are left out.

use std::convert::Infallible;

use serde_json::{Map, Value};
use steersman_apimachinery::yaml;
use steersman_protobuf::FieldWriter;

/// How the value of a member becomes a field.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Flag,
    Integer,
    Double,
    Texts,
    /// Any value, as YAML.
    Any,
    AnyList,
}

/// The members of a JSON object that become fields of one value: the name, the number, the form.
type FieldTable = &'static [(&'static str, u32, Form)];

/// `Schema`. The fields with schemas in them are in [`schema`].
const SCHEMA: FieldTable = &[
    ("$ref", 1, Form::Text),
    ("format", 2, Form::Text),
    ("title", 3, Form::Text),
    ("description", 4, Form::Text),
    ("default", 5, Form::Any),
    ("multipleOf", 6, Form::Double),
    ("maximum", 7, Form::Double),
    ("exclusiveMaximum", 8, Form::Flag),
    ("minimum", 9, Form::Double),
    ("exclusiveMinimum", 10, Form::Flag),
    ("maxLength", 11, Form::Integer),
    ("minLength", 12, Form::Integer),
    ("pattern", 13, Form::Text),
    ("maxItems", 14, Form::Integer),
    ("minItems", 15, Form::Integer),
    ("uniqueItems", 16, Form::Flag),
    ("maxProperties", 17, Form::Integer),
    ("minProperties", 18, Form::Integer),
    ("required", 19, Form::Texts),
    ("enum", 20, Form::AnyList),
];

/// `BodyParameter`, without its schema.
const BODY: FieldTable = &[
    ("description", 1, Form::Text),
    ("name", 2, Form::Text),
    ("in", 3, Form::Text),
    ("required", 4, Form::Flag),
];

/// `QueryParameterSubSchema`, as far as the documents have its fields.
const QUERY: FieldTable = &[
    ("required", 1, Form::Flag),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 6, Form::Text),
    ("uniqueItems", 20, Form::Flag),
];

/// `PathParameterSubSchema`, as far as the documents have its fields.
const PATH: FieldTable = &[
    ("required", 1, Form::Flag),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 5, Form::Text),
    ("uniqueItems", 19, Form::Flag),
];

/// `Operation`, without its parameters and responses.
const OPERATION: FieldTable = &[
    ("tags", 1, Form::Texts),
    ("summary", 2, Form::Text),
    ("description", 3, Form::Text),
    ("operationId", 5, Form::Text),
    ("produces", 6, Form::Texts),
    ("consumes", 7, Form::Texts),
];

/// The operations of a `PathItem`.
const METHODS: &[(&str, u32)] = &[
    ("get", 2),
    ("put", 3),
    ("post", 4),
    ("delete", 5),
    ("options", 6),
    ("head", 7),
    ("patch", 8),
];

/// The numbers of the name and the value in the messages that gnostic has in place of maps.
const NAME: u32 = 1;
const VALUE: u32 = 2;
/// The number of the text in an `Any`.
const YAML: u32 = 2;

/// Returns a document with these paths, each a [`named`] path, and definitions, each a [`named`] schema.
pub(super) fn document(
    (title, version): (&str, &str),
    paths: impl Iterator<Item = Vec<u8>>,
    definitions: impl Iterator<Item = Vec<u8>>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = FieldWriter::new(&mut bytes);
    out.bytes(1, b"2.0");
    nested(&mut out, 2, |out| {
        out.bytes(1, title.as_bytes());
        out.bytes(2, version.as_bytes());
    });
    nested(&mut out, 8, |out| {
        paths.for_each(|path| out.bytes(2, &path))
    });
    nested(&mut out, 9, |out| {
        definitions.for_each(|definition| out.bytes(1, &definition));
    });
    bytes
}

/// Returns a `NamedPathItem` or `NamedSchema`; `write` writes its value.
pub(super) fn named(name: &str, value: &Value, write: fn(&Value, &mut FieldWriter<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = FieldWriter::new(&mut bytes);
    out.bytes(NAME, name.as_bytes());
    nested(&mut out, VALUE, |out| write(value, out));
    bytes
}

pub(super) fn path_item(item: &Value, out: &mut FieldWriter<'_>) {
    for (method, number) in METHODS {
        if let Some(one) = item.get(method) {
            nested(out, *number, |out| operation(one, out));
        }
    }
    parameters(item, 9, out);
    extensions(item, 10, out);
}

fn operation(operation: &Value, out: &mut FieldWriter<'_>) {
    members(operation, OPERATION, out);
    parameters(operation, 8, out);
    nested(out, 9, |out| {
        for (code, response) in object(&operation["responses"]) {
            nested(out, 1, |out| {
                out.bytes(NAME, code.as_bytes());
                // `ResponseValue` with a `Response`.
                nested(out, VALUE, |out| {
                    nested(out, 1, |out| response_fields(response, out))
                });
            });
        }
    });
    extensions(operation, 13, out);
}

fn response_fields(response: &Value, out: &mut FieldWriter<'_>) {
    members(response, &[("description", 1, Form::Text)], out);
    if let Some(one) = response.get("schema") {
        // `SchemaItem` with a `Schema`.
        nested(out, 2, |out| nested(out, 1, |out| schema(one, out)));
    }
}

/// Writes parameters, each a `ParametersItem` with a `Parameter`.
fn parameters(holder: &Value, number: u32, out: &mut FieldWriter<'_>) {
    for parameter in holder["parameters"].as_array().into_iter().flatten() {
        nested(out, number, |out| {
            nested(out, 1, |out| match parameter["in"].as_str() {
                Some("body") => nested(out, 1, |out| {
                    members(parameter, BODY, out);
                    nested(out, 5, |out| schema(&parameter["schema"], out));
                }),
                // `NonBodyParameter`.
                place => nested(out, 2, |out| {
                    let (number, fields) = match place {
                        Some("path") => (4, PATH),
                        _ => (3, QUERY),
                    };
                    nested(out, number, |out| members(parameter, fields, out));
                }),
            })
        });
    }
}

/// Writes a `Schema`. The recursion is bounded because the nesting of schemas is.
pub(super) fn schema(value: &Value, out: &mut FieldWriter<'_>) {
    members(value, SCHEMA, out);
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => nested(out, 21, |out| out.varint(2, u64::from(*allowed))),
        Some(values) => nested(out, 21, |out| nested(out, 1, |out| schema(values, out))),
        None => {}
    }
    if let Some(kind) = value["type"].as_str() {
        nested(out, 22, |out| out.bytes(1, kind.as_bytes()));
    }
    if let Some(items) = value.get("items") {
        nested(out, 23, |out| nested(out, 1, |out| schema(items, out)));
    }
    for one in value["allOf"].as_array().into_iter().flatten() {
        nested(out, 24, |out| schema(one, out));
    }
    if let Some(properties) = value.get("properties") {
        nested(out, 25, |out| {
            for (name, property) in object(properties) {
                nested(out, 1, |out| {
                    out.bytes(NAME, name.as_bytes());
                    nested(out, VALUE, |out| schema(property, out));
                });
            }
        });
    }
    extensions(value, 31, out);
}

/// Writes the members of an object that a table names.
fn members(value: &Value, members: FieldTable, out: &mut FieldWriter<'_>) {
    for (name, number, form) in members {
        let Some(value) = value.get(name) else {
            continue;
        };
        match form {
            Form::Text => text(value, *number, out),
            Form::Flag if *value == true => out.varint(*number, 1),
            Form::Flag => {}
            Form::Integer => match value.as_i64() {
                None | Some(0) => {}
                Some(integer) => out.varint(*number, integer.cast_unsigned()),
            },
            Form::Double => match value.as_f64() {
                Some(double) if double != 0.0 => out.fixed64(*number, double.to_bits()),
                _ => {}
            },
            Form::Texts => {
                let items = value.as_array().into_iter().flatten();
                items.for_each(|item| {
                    out.bytes(*number, item.as_str().unwrap_or_default().as_bytes())
                });
            }
            Form::Any => any(value, *number, out),
            Form::AnyList => {
                let items = value.as_array().into_iter().flatten();
                items.for_each(|item| any(item, *number, out));
            }
        }
    }
}

fn text(value: &Value, number: u32, out: &mut FieldWriter<'_>) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        out.bytes(number, text.as_bytes());
    }
}

fn any(value: &Value, number: u32, out: &mut FieldWriter<'_>) {
    nested(out, number, |out| {
        out.bytes(YAML, yaml::write(value).as_bytes())
    });
}

/// Writes the vendor extensions of an object, each a `NamedAny`.
fn extensions(value: &Value, number: u32, out: &mut FieldWriter<'_>) {
    for (name, value) in object(value).filter(|(name, _)| name.starts_with("x-")) {
        nested(out, number, |out| {
            out.bytes(NAME, name.as_bytes());
            any(value, VALUE, out);
        });
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn nested(out: &mut FieldWriter<'_>, number: u32, write: impl FnOnce(&mut FieldWriter<'_>)) {
    let write = |out: &mut FieldWriter<'_>| {
        write(out);
        Ok::<_, Infallible>(())
    };
    match out.nested(number, write) {
        Ok(()) => {}
    }
}

#[cfg(test)]
mod tests;
