//! Machine: decodes the protobuf encoding of Kubernetes objects into JSON.

mod messages;
mod wire;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_text::go::quote;

use messages::{Cardinality, Field, FieldKind, message};
use wire::{Content, Reader};

/// Returns whether a field keeps its zero in JSON, because a zero differs from an absent field.
/// `owner` is the name of a type in the table; the result is `false` for an unknown type or field.
pub(super) fn keeps_zero(owner: &str, field: &str) -> bool {
    message(owner).iter().any(|found| match found.kind {
        FieldKind::Message(part) if found.name.is_empty() => keeps_zero(part, field),
        _ => found.name == field && found.keeps_zero,
    })
}

/// The magic number at the start of every encoded object.
const MAGIC: [u8; 4] = *b"k8s\0";

/// The maximum depth of nested messages, equal to the limit for JSON.
const DEEPEST: usize = 120;

/// An encoded object with its kind: `runtime.Unknown` of `k8s.io/apimachinery`.
#[derive(Debug, Default)]
pub struct Envelope<'a> {
    /// The object's `apiVersion`.
    pub api_version: String,
    /// The object's `kind`.
    pub kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Decodes the envelope, and leaves the object inside encoded.
    ///
    /// # Errors
    /// Fails with the message of Kubernetes' serializer if the bytes are not an envelope.
    pub fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            let [a, b, c, d] = MAGIC;
            return Err(format!(
                "provided data does not appear to be a protobuf message, expected prefix [{a} {b} {c} {d}]"
            ));
        };
        if rest.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut envelope = Self::default();
        let mut reader = Reader::new(rest);
        while let Some((number, content)) = reader.next("Unknown")? {
            match (number, content) {
                (1, content) => {
                    let mut meta = Reader::new(content.bytes("TypeMeta")?);
                    while let Some((number, content)) = meta.next("TypeMeta")? {
                        match number {
                            1 => envelope.api_version = text(content.bytes("APIVersion")?),
                            2 => envelope.kind = text(content.bytes("Kind")?),
                            _ => {}
                        }
                    }
                }
                (2, content) => envelope.raw = content.bytes("Raw")?,
                _ => {}
            }
        }
        for (found, name) in [
            (&envelope.kind, "Kind"),
            (&envelope.api_version, "apiVersion"),
        ] {
            if found.is_empty() {
                return Err(format!(
                    "Object '{name}' is missing in 'runtime.TypeMeta{{APIVersion:{}, Kind:{}}}'",
                    json!(envelope.api_version),
                    json!(envelope.kind)
                ));
            }
        }
        Ok(envelope)
    }

    /// Decodes the object as the built-in type of its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// Fails with the message of Kubernetes' scheme for an unknown kind, and with the message of
    /// its generated code if the bytes are not a message of the type.
    pub fn object(&self) -> Result<Value, String> {
        let name = if self.kind == "DeleteOptions" {
            // Every API group serves DeleteOptions.
            Some("meta.v1.DeleteOptions")
        } else {
            super::table::kind(&self.api_version, &self.kind).map(|found| found.name)
        };
        let Some(name) = name else {
            return Err(format!(
                "no kind {} is registered for version {} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
                quote(&self.kind),
                quote(&self.api_version)
            ));
        };
        let mut object = Map::new();
        object.insert("kind".to_owned(), self.kind.as_str().into());
        object.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        read(name, self.raw, &mut object, 1)?;
        Ok(Value::Object(object))
    }
}

/// Decodes a message into the members of an object. Skips fields with unknown numbers, as Go's
/// generated code does.
fn read(
    name: &str,
    bytes: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err("exceeded max depth".to_owned());
    }
    let short = name.rsplit('.').next().unwrap_or_default();
    let fields = message(name);
    let mut reader = Reader::new(bytes);
    while let Some((number, content)) = reader.next(short)? {
        let Some(field) = fields.iter().find(|field| field.number == number) else {
            continue;
        };
        if field.name.is_empty() {
            // The fields of an embedded message are members of its owner.
            if let FieldKind::Message(part) = field.kind {
                read(part, content.bytes(part)?, into, depth + 1)?;
            }
            continue;
        }
        match field.shape {
            Cardinality::One => one(field, content, into, depth)?,
            Cardinality::List => list(field, content, into, depth)?,
            Cardinality::Map => entry(field, content, into, depth)?,
        }
    }
    Ok(())
}

/// Decodes a field that is neither a list nor a map. If the field is repeated, the last scalar wins
/// and messages are merged.
fn one(
    field: &Field,
    content: Content<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if let FieldKind::Message(name) = field.kind {
        let bytes = content.bytes(field.name)?;
        let place = into.entry(field.name).or_insert_with(|| json!({}));
        return match place {
            Value::Object(place) => read(name, bytes, place, depth + 1),
            _ => Ok(()),
        };
    }
    let value = value(field.kind, field.name, content, depth)?;
    let zero = match &value {
        None => true,
        Some(Value::String(text)) => text.is_empty() && !field.keeps_zero,
        Some(Value::Bool(on)) => !on && !field.keeps_zero,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0) && !field.keeps_zero,
        Some(_) => false,
    };
    match value {
        Some(value) if !zero => into.insert(field.name.to_owned(), value),
        _ => into.remove(field.name),
    };
    Ok(())
}

/// Decodes one element of a list and appends it. A packed field holds several numbers.
fn list(
    field: &Field,
    content: Content<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let place = into.entry(field.name).or_insert_with(|| json!([]));
    let Value::Array(elements) = place else {
        return Ok(());
    };
    if let (FieldKind::Int32 | FieldKind::Int64 | FieldKind::Bool, Content::Bytes(packed)) =
        (field.kind, content)
    {
        let mut reader = Reader::new(packed);
        while let Some(number) = reader.varint()? {
            let number = Content::Varint(number);
            elements.extend(value(field.kind, field.name, number, depth)?);
        }
        return Ok(());
    }
    elements.push(value(field.kind, field.name, content, depth + 1)?.unwrap_or_default());
    Ok(())
}

/// Decodes one entry of a map, which is a message with a key and a value.
fn entry(
    field: &Field,
    content: Content<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let mut reader = Reader::new(content.bytes(field.name)?);
    let mut key = String::new();
    let mut found = None;
    while let Some((number, content)) = reader.next(field.name)? {
        match number {
            1 => key = text(content.bytes(field.name)?),
            2 => found = value(field.kind, field.name, content, depth + 1)?,
            _ => {}
        }
    }
    let found = match found {
        Some(found) => found,
        None => value(
            field.kind,
            field.name,
            Content::nothing(field.kind),
            depth + 1,
        )?
        .unwrap_or_default(),
    };
    let place = into.entry(field.name).or_insert_with(|| json!({}));
    if let Value::Object(entries) = place {
        entries.insert(key, found);
    }
    Ok(())
}

/// Decodes one value. Returns `None` for an empty time and for empty raw JSON.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a varint is the two's complement of a number with a sign"
)]
fn value(
    kind: FieldKind,
    name: &str,
    content: Content<'_>,
    depth: usize,
) -> Result<Option<Value>, String> {
    Ok(match kind {
        FieldKind::String => Some(text(content.bytes(name)?).into()),
        FieldKind::Bool => Some((content.varint(name)? != 0).into()),
        FieldKind::Int32 => Some((content.varint(name)? as i32).into()),
        FieldKind::Int64 => Some((content.varint(name)? as i64).into()),
        FieldKind::Double => Some(json!(content.double(name)?)),
        FieldKind::Bytes => {
            let bytes = content.bytes(name)?;
            Some(
                base64::engine::general_purpose::STANDARD
                    .encode(bytes)
                    .into(),
            )
        }
        FieldKind::Message(message) => {
            let mut object = Map::new();
            read(message, content.bytes(name)?, &mut object, depth + 1)?;
            Some(Value::Object(object))
        }
        FieldKind::Quantity => {
            let inner = Parts::read(content.bytes(name)?, "Quantity")?;
            let text = inner.text(1)?;
            Some(if text.is_empty() {
                "0".into()
            } else {
                text.into()
            })
        }
        FieldKind::IntOrString => {
            let inner = Parts::read(content.bytes(name)?, "IntOrString")?;
            Some(if inner.number(1)? == 1 {
                inner.text(3)?.into()
            } else {
                (inner.number(2)? as i32).into()
            })
        }
        FieldKind::Time => time(content.bytes(name)?, 0)?,
        FieldKind::MicroTime => time(content.bytes(name)?, 6)?,
        FieldKind::Raw => {
            let inner = Parts::read(content.bytes(name)?, "RawExtension")?;
            match inner.bytes(1)? {
                [] => None,
                raw => Some(serde_json::from_slice(raw).map_err(|error| error.to_string())?),
            }
        }
        FieldKind::Strings => {
            let mut items = Vec::new();
            let mut reader = Reader::new(content.bytes(name)?);
            while let Some((number, content)) = reader.next("ExtraValue")? {
                if number == 1 {
                    items.push(text(content.bytes("Items")?).into());
                }
            }
            Some(Value::Array(items))
        }
        FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings => {
            alternative(kind, content.bytes(name)?, depth)?
        }
    })
}

/// Decodes a field of `JSONSchemaProps` that holds either a schema or an alternative: a boolean,
/// several schemas, or several strings.
fn alternative(kind: FieldKind, bytes: &[u8], depth: usize) -> Result<Option<Value>, String> {
    const SCHEMA: FieldKind = FieldKind::Message("apiextensions.v1.JSONSchemaProps");
    let mut schema = None;
    let mut several = Vec::new();
    let mut allows = false;
    let mut reader = Reader::new(bytes);
    while let Some((number, content)) = reader.next("JSONSchemaProps")? {
        match (kind, number) {
            (FieldKind::SchemaOrBool, 1) => allows = content.varint("Allows")? != 0,
            (FieldKind::SchemaOrBool, 2)
            | (FieldKind::SchemaOrArray | FieldKind::SchemaOrStrings, 1) => {
                schema = value(SCHEMA, "Schema", content, depth + 1)?;
            }
            (FieldKind::SchemaOrArray, 2) => {
                several.extend(value(SCHEMA, "JSONSchemas", content, depth + 2)?);
            }
            (FieldKind::SchemaOrStrings, 2) => {
                several.push(text(content.bytes("Property")?).into())
            }
            _ => {}
        }
    }
    Ok(match (kind, schema) {
        (FieldKind::SchemaOrStrings, _) if !several.is_empty() => Some(Value::Array(several)),
        (_, Some(schema)) => Some(schema),
        (FieldKind::SchemaOrBool, None) => Some(allows.into()),
        (_, None) => Some(Value::Array(several)),
    })
}

/// Decodes a timestamp with the given number of fractional digits. Returns `None` for an empty
/// message.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a varint is the two's complement of a number with a sign"
)]
fn time(bytes: &[u8], digits: u8) -> Result<Option<Value>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let inner = Parts::read(bytes, "Timestamp")?;
    let (seconds, nanos) = (inner.number(1)? as i64, inner.number(2)? as i32);
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(Some(format!("{time:.0$}", usize::from(digits)).into()))
}

/// Converts a protobuf string to text for JSON. Invalid UTF-8 is replaced by U+FFFD.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The fields of a small message by number, starting at 1. Of a repeated field, the last value
/// counts.
struct Parts<'a>([Option<Content<'a>>; 3]);

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8], message: &str) -> Result<Self, String> {
        let mut parts = [None; 3];
        let mut reader = Reader::new(bytes);
        while let Some((number, content)) = reader.next(message)? {
            let place = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
            if let Some(part) = place.and_then(|place| parts.get_mut(place)) {
                *part = Some(content);
            }
        }
        Ok(Self(parts))
    }

    fn number(&self, number: usize) -> Result<u64, String> {
        self.0[number - 1].map_or(Ok(0), |content| content.varint("Value"))
    }

    fn bytes(&self, number: usize) -> Result<&'a [u8], String> {
        self.0[number - 1].map_or(Ok(&[]), |content| content.bytes("Value"))
    }

    fn text(&self, number: usize) -> Result<String, String> {
        self.bytes(number).map(text)
    }
}

#[cfg(test)]
mod tests;
