//! Machine: encodes JSON while it is parsed, without building a tree.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize as _;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::{EncodeStep, Trail, assemble, check_depth, values};
use crate::table::{Cardinality, FieldKind, Message, Row};
use crate::wire::FieldWriter;

pub(super) struct ObjectVisitor<'s, 'o> {
    pub(super) message: &'static Message,
    pub(super) trail: &'s mut Trail,
    pub(super) out: &'s mut FieldWriter<'o>,
    pub(super) depth: usize,
}

impl<'de> DeserializeSeed<'de> for ObjectVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        check_depth(self.depth).map_err(A::Error::custom)?;
        // Members arrive in any order, but are written in the order of their field numbers.
        let mut bytes = Vec::new();
        let mut found: Vec<(Row, Range<usize>)> = Vec::new();
        while let Some(key) = map.next_key_seed(Name(self.message))? {
            let field = match key {
                Member::Field(field) => field,
                Member::Unknown(name) => {
                    let of_object = matches!(&*name, "apiVersion" | "kind");
                    if !(self.depth == 1 && of_object) && self.trail.unknown.is_none() {
                        let place = self.trail.place();
                        self.trail.unknown = Some(format!("{place}.{name}"));
                    }
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let step = EncodeStep::Name(Cow::Borrowed(field.name));
            self.trail.steps.push(step);
            let begin = bytes.len();
            map.next_value_seed(MemberVisitor {
                field,
                number: field.number,
                shape: field.shape,
                null: NullIs::Absent,
                trail: self.trail,
                out: &mut FieldWriter { out: &mut bytes },
                depth: self.depth,
            })?;
            self.trail.steps.pop();
            if bytes.len() > begin {
                // If a member is repeated, the last value counts.
                found.retain(|(one, _)| !std::ptr::eq(*one, field));
                found.push((field, begin..bytes.len()));
            }
        }
        let found: Vec<(Row, &[u8])> = found
            .into_iter()
            .map(|(field, range)| (field, &bytes[range]))
            .collect();
        assemble(self.message, &found, self.out, self.depth).map_err(A::Error::custom)
    }
}

/// Finds the field for the name of a member; a name without a field is returned.
struct Name(&'static Message);

enum Member {
    Field(Row),
    /// The name of a member that the message does not have.
    Unknown(String),
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Member;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(match self.0.member(name) {
            Some(field) => Member::Field(field),
            None => Member::Unknown(name.to_owned()),
        })
    }
}

/// The meaning of `null` in JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NullIs {
    Absent,
    /// The zero of the type, for an element of a list or a map.
    Zero,
}

/// Encodes the value of a field, an element of a list, or a value of a map.
struct MemberVisitor<'s, 'o> {
    field: Row,
    number: u32,
    shape: Cardinality,
    null: NullIs,
    trail: &'s mut Trail,
    out: &'s mut FieldWriter<'o>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for MemberVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if (self.shape, self.field.kind) != (Cardinality::One, FieldKind::Raw) {
            return deserializer.deserialize_any(self);
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match (raw.get(), self.null) {
            ("null", NullIs::Absent) => {}
            // Go reads `null` as an empty text.
            ("null", NullIs::Zero) => self.out.bytes(self.number, b""),
            (text, _) => {
                let write = |out: &mut FieldWriter<'_>| out.bytes(1, &compact(text));
                self.out.message(self.number, write);
            }
        }
        Ok(())
    }
}

impl MemberVisitor<'_, '_> {
    /// Checks that the field may have a single value.
    fn one<E: serde::de::Error>(&self, found: &str) -> Result<(), E> {
        match self.shape {
            Cardinality::One => Ok(()),
            Cardinality::List | Cardinality::Map => self.wrong(found),
        }
    }

    fn wrong<T, E: serde::de::Error>(&self, found: &str) -> Result<T, E> {
        Err(E::custom(values::wrong(self.field, found)))
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.trail.steps.push(EncodeStep::Index(index));
            let item = items.next_element_seed(MemberVisitor {
                shape: Cardinality::One,
                null: NullIs::Zero,
                trail: self.trail,
                out: self.out,
                depth: self.depth + 1,
                ..self
            })?;
            self.trail.steps.pop();
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn entries<'de, A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut bytes = Vec::new();
        let mut found: Vec<(String, Range<usize>)> = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.trail.steps.push(EncodeStep::Name(Cow::Owned(key)));
            let begin = bytes.len();
            entries.next_value_seed(MemberVisitor {
                number: 2,
                shape: Cardinality::One,
                null: NullIs::Zero,
                trail: self.trail,
                out: &mut FieldWriter { out: &mut bytes },
                depth: self.depth + 1,
                ..self
            })?;
            if let Some(EncodeStep::Name(key)) = self.trail.steps.pop() {
                found.push((key.into_owned(), begin..bytes.len()));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        // If a member is repeated, the last value counts, as in Go.
        found.dedup_by(|later, kept| {
            let is_again = later.0 == kept.0;
            if is_again {
                std::mem::swap(later, kept);
            }
            is_again
        });
        for (key, range) in found {
            self.out.message(self.number, |out| {
                out.bytes(1, key.as_bytes());
                out.out.extend_from_slice(&bytes[range]);
            });
        }
        Ok(())
    }

    fn schema<'de, A: MapAccess<'de>>(
        number: u32,
        (trail, out, depth): (&mut Trail, &mut FieldWriter<'_>, usize),
        map: A,
    ) -> Result<(), A::Error> {
        let message = Message::of_schemas();
        let message = message.ok_or_else(|| A::Error::custom("the table has no schemas"))?;
        out.nested(number, |out| {
            let object = ObjectVisitor {
                message,
                trail,
                out,
                depth: depth + 2,
            };
            object.visit_map(map)
        })
    }
}

impl<'de> Visitor<'de> for MemberVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the field's type")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        match self.null {
            NullIs::Absent => Ok(()),
            NullIs::Zero => {
                values::zero_value(self.field, self.number, self.out, self.depth).map_err(E::custom)
            }
        }
    }

    fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<(), E> {
        self.one("a boolean")?;
        match self.field.kind {
            FieldKind::Bool => self.out.varint(self.number, u64::from(on)),
            FieldKind::SchemaOrBool => {
                let write = |out: &mut FieldWriter<'_>| out.varint(1, u64::from(on));
                self.out.message(self.number, write);
            }
            _ => return self.wrong("a boolean"),
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.one("a number")?;
        values::integer(self.field, self.number, value, self.out).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.one("a number")?;
        values::double(self.field, self.number, value, self.out).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.one("a text")?;
        values::text(self.field, self.number, text, self.out).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.shape == Cardinality::List {
            return self.list(items);
        }
        self.one("a list")?;
        let kind = self.field.kind;
        let (trail, depth) = (self.trail, self.depth);
        self.out.nested(self.number, |out| match kind {
            FieldKind::Strings | FieldKind::SchemaOrStrings => {
                let number = if kind == FieldKind::Strings { 1 } else { 2 };
                while let Some(text) = items.next_element::<Cow<'_, str>>()? {
                    out.bytes(number, text.as_bytes());
                }
                Ok(())
            }
            FieldKind::SchemaOrArray => {
                while items
                    .next_element_seed(Schema {
                        number: 2,
                        trail,
                        out,
                        depth,
                    })?
                    .is_some()
                {}
                Ok(())
            }
            _ => Err(A::Error::custom(values::wrong(self.field, "a list"))),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        if self.shape == Cardinality::Map {
            return self.entries(map);
        }
        self.one("an object")?;
        let (trail, depth) = (self.trail, self.depth);
        match self.field.kind {
            FieldKind::Message(message) => self.out.nested(self.number, |out| {
                let object = ObjectVisitor {
                    message: message.message(),
                    trail,
                    out,
                    depth: depth + 1,
                };
                object.visit_map(map)
            }),
            FieldKind::SchemaOrBool => self.out.nested(self.number, |out| {
                out.varint(1, 1);
                Self::schema(2, (trail, out, depth), map)
            }),
            FieldKind::SchemaOrArray | FieldKind::SchemaOrStrings => self
                .out
                .nested(self.number, |out| Self::schema(1, (trail, out, depth), map)),
            _ => Err(A::Error::custom(values::wrong(self.field, "an object"))),
        }
    }
}

/// Returns JSON text without white space between its values.
fn compact(text: &str) -> Cow<'_, [u8]> {
    let (mut in_string, mut escaped) = (false, false);
    let mut is_kept = |byte: u8| {
        let kept = in_string || !byte.is_ascii_whitespace();
        in_string ^= byte == b'"' && !escaped;
        escaped = in_string && byte == b'\\' && !escaped;
        kept
    };
    if text.bytes().all(|byte| !byte.is_ascii_whitespace()) {
        return Cow::Borrowed(text.as_bytes());
    }
    Cow::Owned(text.bytes().filter(|byte| is_kept(*byte)).collect())
}

struct Schema<'s, 'o> {
    number: u32,
    trail: &'s mut Trail,
    out: &'s mut FieldWriter<'o>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Schema<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Schema<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        MemberVisitor::schema(self.number, (self.trail, self.out, self.depth), map)
    }
}
