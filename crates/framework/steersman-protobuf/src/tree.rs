//! Machine: decodes a protobuf message into a JSON tree, whatever the order of its fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::findings::{DEEPEST, Keep, Unknown};
use crate::parts::{self, IntOrString};
use crate::table::{Cardinality, FieldKind, Message, Presence, Row};
use crate::wire::{FieldContent, MessageReader};

/// Decodes a message into the members of an object, without `apiVersion` and `kind`.
pub(crate) fn members(
    message: &'static Message,
    raw: &[u8],
    keep: Keep,
) -> Result<(Map<String, Value>, Unknown), String> {
    let mut decoder = TreeDecoder::default();
    let mut members = Map::new();
    decoder.read(message, raw, &mut members, 1)?;
    Ok((kept(members, keep), decoder.unknown))
}

/// Decodes a field of `JSONSchemaProps` that holds either a schema or an alternative.
pub(crate) fn alternative(
    kind: FieldKind,
    bytes: &[u8],
    depth: usize,
) -> Result<(Value, Unknown), String> {
    let mut decoder = TreeDecoder::default();
    let value = decoder.alternative(kind, bytes, depth)?;
    Ok((value, decoder.unknown))
}

fn kept(mut members: Map<String, Value>, keep: Keep) -> Map<String, Value> {
    if !keep.beyond_metadata {
        members.retain(|name, _| name == "metadata");
    }
    let metadata = members.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|_| !keep.managed_fields) {
        metadata.remove("managedFields");
    }
    members
}

#[derive(Default)]
struct TreeDecoder {
    unknown: Unknown,
}

impl TreeDecoder {
    /// Decodes a message into the members of an object. Skips fields with unknown numbers, as Go's generated code does.
    fn read(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("exceeded max depth".to_owned());
        }
        let mut seen = 0_u64;
        let mut reader = MessageReader::new(bytes);
        while let Some((number, content)) = reader.next(message.short_name())? {
            let Some((index, field)) = message.field(number) else {
                self.unknown.note(message, number);
                continue;
            };
            seen |= 1 << index;
            if field.name.is_empty() {
                // The fields of an embedded message become members of its owner.
                if let FieldKind::Message(part) = field.kind {
                    let part = part.message();
                    self.read(part, content.bytes(part.name())?, into, depth + 1)?;
                }
                continue;
            }
            match field.shape {
                Cardinality::One => self.one(field, content, into, depth)?,
                Cardinality::List => self.list(field, content, into, depth)?,
                Cardinality::Map => self.entry(field, content, into, depth)?,
            }
        }
        for field in message.missing(seen) {
            self.absent(field, into, depth)?;
        }
        Ok(())
    }

    /// Adds the zero of a field that JSON always has, unless the field was present.
    fn absent(
        &mut self,
        field: Row,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        if into.contains_key(field.name) {
            return Ok(());
        }
        let zero = match (field.shape, field.kind) {
            (Cardinality::One, FieldKind::Message(part)) if field.name.is_empty() => {
                return self.read(part.message(), &[], into, depth + 1);
            }
            (Cardinality::One, FieldKind::Bytes) => Value::Null,
            (Cardinality::One, _) if field.presence == Presence::Nullable => Value::Null,
            (Cardinality::One, kind) => self.value(field, FieldContent::nothing(kind), depth)?,
            (Cardinality::List | Cardinality::Map, _) => Value::Null,
        };
        into.insert(field.name.to_owned(), zero);
        Ok(())
    }

    /// Decodes a field that is neither a list nor a map. If the field is repeated, the last scalar wins
    /// and messages are merged.
    fn one(
        &mut self,
        field: Row,
        content: FieldContent<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        if let FieldKind::Message(message) = field.kind {
            let bytes = content.bytes(field.name)?;
            let place = into.entry(field.name).or_insert_with(|| json!({}));
            return match place {
                Value::Object(place) => self.read(message.message(), bytes, place, depth + 1),
                _ => Ok(()),
            };
        }
        if field.presence == Presence::Omitted && content.is_zero(field.kind) {
            content.fits(field)?;
            into.remove(field.name);
            return Ok(());
        }
        let value = self.value(field, content, depth)?;
        into.insert(field.name.to_owned(), value);
        Ok(())
    }

    /// Decodes and appends one element of a list. A packed field has several numbers.
    fn list(
        &mut self,
        field: Row,
        content: FieldContent<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let place = into.entry(field.name).or_insert_with(|| json!([]));
        let Value::Array(elements) = place else {
            return Ok(());
        };
        if let (
            FieldKind::Int32 | FieldKind::Int64 | FieldKind::Bool,
            FieldContent::Bytes(packed),
        ) = (field.kind, content)
        {
            let mut reader = MessageReader::new(packed);
            while let Some(number) = reader.varint()? {
                elements.push(self.value(field, FieldContent::Varint(number), depth)?);
            }
            return Ok(());
        }
        elements.push(self.value(field, content, depth + 1)?);
        Ok(())
    }

    fn entry(
        &mut self,
        field: Row,
        content: FieldContent<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let mut reader = MessageReader::new(content.bytes(field.name)?);
        let mut key = String::new();
        let mut found = None;
        while let Some((number, content)) = reader.next(field.name)? {
            match number {
                1 => key = text(content.bytes(field.name)?),
                2 => found = Some(self.value(field, content, depth + 1)?),
                _ => {}
            }
        }
        let found = match found {
            Some(found) => found,
            None => self.value(field, FieldContent::nothing(field.kind), depth + 1)?,
        };
        let place = into.entry(field.name).or_insert_with(|| json!({}));
        if let Value::Object(entries) = place {
            entries.insert(key, found);
        }
        Ok(())
    }

    /// Decodes one value. An empty time and empty raw JSON are `null`.
    fn value(
        &mut self,
        field: Row,
        content: FieldContent<'_>,
        depth: usize,
    ) -> Result<Value, String> {
        let name = field.name;
        Ok(match field.kind {
            FieldKind::String => text(content.bytes(name)?).into(),
            FieldKind::Bool => (content.varint(name)? != 0).into(),
            FieldKind::Int32 => (content.varint(name)? as i32).into(),
            FieldKind::Int64 => (content.varint(name)? as i64).into(),
            FieldKind::Double => parts::double(content.double(name)?),
            FieldKind::Bytes => STANDARD.encode(content.bytes(name)?).into(),
            FieldKind::Message(message) => {
                let mut object = Map::new();
                let bytes = content.bytes(name)?;
                self.read(message.message(), bytes, &mut object, depth + 1)?;
                Value::Object(object)
            }
            FieldKind::Quantity => text(parts::quantity(content.bytes(name)?)?).into(),
            FieldKind::IntOrString => match parts::int_or_string(content.bytes(name)?)? {
                IntOrString::Int(number) => number.into(),
                IntOrString::String(bytes) => text(bytes).into(),
            },
            FieldKind::Time => time(content.bytes(name)?, 0)?,
            FieldKind::MicroTime => time(content.bytes(name)?, 6)?,
            FieldKind::Raw => match parts::raw(content.bytes(name)?)? {
                [] => Value::Null,
                raw => serde_json::from_slice(raw).map_err(|error| error.to_string())?,
            },
            FieldKind::Strings => {
                let mut items = Vec::new();
                parts::strings(content.bytes(name)?, |item| items.push(text(item).into()))?;
                Value::Array(items)
            }
            FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings => {
                self.alternative(field.kind, content.bytes(name)?, depth)?
            }
        })
    }

    /// Decodes a field of `JSONSchemaProps` that holds either a schema or an alternative: a boolean,
    /// several schemas, or several strings.
    fn alternative(
        &mut self,
        kind: FieldKind,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, String> {
        let mut schema = None;
        let mut several = Vec::new();
        let mut allows = false;
        let mut reader = MessageReader::new(bytes);
        while let Some((number, content)) = reader.next("JSONSchemaProps")? {
            match (kind, number) {
                (FieldKind::SchemaOrBool, 1) => allows = content.varint("Allows")? != 0,
                (FieldKind::SchemaOrBool, 2)
                | (FieldKind::SchemaOrArray | FieldKind::SchemaOrStrings, 1) => {
                    schema = Some(self.schema(content.bytes("Schema")?, depth + 1)?);
                }
                (FieldKind::SchemaOrArray, 2) => {
                    several.push(self.schema(content.bytes("JSONSchemas")?, depth + 2)?);
                }
                (FieldKind::SchemaOrStrings, 2) => {
                    several.push(text(content.bytes("Property")?).into());
                }
                _ => {}
            }
        }
        Ok(match (kind, schema) {
            // Go writes a list before a single value, and `null` for neither.
            (FieldKind::SchemaOrStrings | FieldKind::SchemaOrArray, _) if !several.is_empty() => {
                Value::Array(several)
            }
            (_, Some(schema)) => schema,
            (FieldKind::SchemaOrBool, None) => allows.into(),
            (_, None) => Value::Null,
        })
    }

    fn schema(&mut self, bytes: &[u8], depth: usize) -> Result<Value, String> {
        let mut object = Map::new();
        if let Some(message) = Message::of_schemas() {
            self.read(message, bytes, &mut object, depth + 1)?;
        }
        Ok(Value::Object(object))
    }
}

fn time(bytes: &[u8], digits: usize) -> Result<Value, String> {
    let time = parts::time(bytes)?;
    Ok(time.map_or(Value::Null, |time| format!("{time:.digits$}").into()))
}

/// Converts a protobuf string to text for JSON. Invalid UTF-8 is replaced by U+FFFD.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
