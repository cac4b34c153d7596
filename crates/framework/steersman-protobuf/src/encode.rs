//! Machine: encodes JSON as a protobuf message, byte for byte as Go does.
//!
//! Go writes fields in the order of their numbers, and map entries in the order of their keys. A value that is not a
//! pointer is written even if it is zero, so an absent member is encoded as zero (`Presence`).

mod values;
mod visitors;

use std::borrow::Cow;

use serde::de::{DeserializeSeed as _, Deserializer};
use serde_json::{Map, Value};

use crate::findings::DEEPEST;
use crate::table::{FieldKind, Message, Row};
use crate::wire::FieldWriter;
use visitors::ObjectVisitor;

/// The reason why an object cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct EncodeError {
    /// The path of the invalid member, for example `.spec.containers[0].ports`.
    pub path: String,
    /// What is wrong with the member, without its value.
    pub problem: String,
}

/// An encoded object without an envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes of the message.
    pub raw: Vec<u8>,
    /// The path of the first member that the table does not know, which is not encoded. `apiVersion` and `kind` of the
    /// object itself do not count, because the envelope has them.
    pub unknown: Option<String>,
}

/// Encodes an object from JSON text. Raw JSON members keep their text.
///
/// # Errors
/// Fails if the text is not JSON, or if a member does not have its type.
pub fn encode_text(message: &'static Message, json: &[u8]) -> Result<Encoded, EncodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let encoded = encode_from(message, &mut deserializer)?;
    deserializer.end().map_err(|error| EncodeError {
        path: String::new(),
        problem: error.to_string(),
    })?;
    Ok(encoded)
}

/// Encodes an object.
///
/// # Errors
/// Fails if a member does not have its type.
pub fn encode(
    message: &'static Message,
    object: &Map<String, Value>,
) -> Result<Encoded, EncodeError> {
    encode_from(message, object)
}

fn encode_from<'de, D: Deserializer<'de>>(
    message: &'static Message,
    deserializer: D,
) -> Result<Encoded, EncodeError> {
    let (mut trail, mut raw) = (Trail::default(), Vec::new());
    let object = ObjectVisitor {
        message,
        trail: &mut trail,
        out: &mut FieldWriter { out: &mut raw },
        depth: 1,
    };
    match object.deserialize(deserializer) {
        Ok(()) => Ok(Encoded {
            raw,
            unknown: trail.unknown,
        }),
        Err(error) => Err(EncodeError {
            path: trail.place(),
            problem: error.to_string(),
        }),
    }
}

/// The path to the current member. After an error, it is the path of the invalid member.
#[derive(Debug, Default)]
struct Trail {
    steps: Vec<EncodeStep>,
    unknown: Option<String>,
}

#[derive(Debug)]
enum EncodeStep {
    Name(Cow<'static, str>),
    Index(usize),
}

impl Trail {
    fn place(&self) -> String {
        let mut place = String::new();
        for step in &self.steps {
            match step {
                EncodeStep::Name(name) => place.push_str(&format!(".{name}")),
                EncodeStep::Index(index) => place.push_str(&format!("[{index}]")),
            }
        }
        place
    }
}

/// Writes all fields of a message: the fields that were found, and the zeros of all others.
fn assemble(
    message: &'static Message,
    found: &[(Row, &[u8])],
    out: &mut FieldWriter<'_>,
    depth: usize,
) -> Result<(), String> {
    for field in message.fields() {
        if let (FieldKind::Message(part), true) = (field.kind, field.name.is_empty()) {
            out.nested(field.number, |out| {
                assemble(part.message(), found, out, depth + 1)
            })?;
            continue;
        }
        match found.iter().find(|(one, _)| std::ptr::eq(*one, field)) {
            Some((_, bytes)) => out.out.extend_from_slice(bytes),
            None => values::zero(field, out, depth)?,
        }
    }
    Ok(())
}

fn check_depth(depth: usize) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("it is nested deeper than {DEEPEST}"));
    }
    Ok(())
}
