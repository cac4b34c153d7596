//! Machine: parses the generated table of protobuf messages, on first use.
//!
//! Each line of the table is a message: its name, `@` and the `apiVersion` for a kind, and its fields as
//! `number:name=kind`, ordered by number.
//!
//! - A mark after a field's name states how Go treats an empty value in JSON and protobuf ([`Presence`]): `*` is a
//!   pointer, `?` a pointer that is always written, `!` a value that is always written; without a mark, JSON omits an
//!   empty value.
//! - A field without a name is an embedded message: its fields are members of the owner.
//! - A kind that contains a dot is a message. `[]` before the kind makes the field a list, `{}` a map with string keys.

use std::sync::OnceLock;

use fnv::FnvHashMap;

const TEXT: &str = include_str!("messages.txt");

/// One message of the table: the type of an object or of a part of one.
#[derive(Debug)]
pub struct Message {
    name: &'static str,
    short_name: &'static str,
    /// The `apiVersion`; `None` if the message is not a kind.
    api_version: Option<&'static str>,
    fields: Vec<FieldRow>,
    /// The index of each field by its number, plus one; zero for a number without a field.
    by_number: Vec<u8>,
    /// The fields that JSON always has, as a bit set of field indexes.
    always: u64,
}

pub(crate) type Row = &'static FieldRow;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldRow {
    pub(crate) number: u32,
    /// The name in JSON; empty for an embedded message, of which the fields belong to the owner.
    pub(crate) name: &'static str,
    /// The text that starts the member in JSON, after another member: `,"name":`.
    pub(crate) member: String,
    pub(crate) presence: Presence,
    pub(crate) shape: Cardinality,
    pub(crate) kind: FieldKind,
}

/// How Go treats an empty value: a zero, an empty text, list or map, or an unset struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A value with `omitempty` or `omitzero`: a zero is written in protobuf, and omitted in JSON.
    Omitted,
    /// A pointer: an absent value is omitted in both, and a zero is written in both.
    Pointer,
    /// A pointer without `omitempty`: an absent value is omitted in protobuf, and `null` in JSON.
    Nullable,
    /// A value that is always written in both. An empty list or map is omitted in protobuf, and `null` in JSON.
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    One,
    List,
    Map,
}

/// The type of a field, of a list's elements or of a map's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Message(MessageId),
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// A message that wraps raw JSON.
    Raw,
    /// A message that wraps a list of strings.
    Strings,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageId(u16);

struct MessageTable {
    messages: Vec<Message>,
    by_name: FnvHashMap<&'static str, MessageId>,
    /// The messages of the kinds, by `apiVersion` and kind.
    kinds: FnvHashMap<(&'static str, &'static str), MessageId>,
}

impl Message {
    /// Returns the message of a kind; `None` for a kind that is not built in. Every group has a `DeleteOptions`.
    pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        if kind == "DeleteOptions" {
            return Self::named("meta.v1.DeleteOptions");
        }
        let found = table().kinds.get(&(api_version, kind));
        found.map(|id| id.message())
    }

    /// Returns a message by its name, for example `meta.v1.ListMeta`; `None` for a name that is not in the table.
    pub fn named(name: &str) -> Option<&'static Self> {
        table().by_name.get(name).map(|id| id.message())
    }

    pub(crate) fn of_schemas() -> Option<&'static Self> {
        Self::named("apiextensions.v1.JSONSchemaProps")
    }

    /// Returns the message of each kind with its `apiVersion`.
    pub fn kinds() -> impl Iterator<Item = (&'static str, &'static Self)> {
        let messages = table().messages.iter();
        messages.filter_map(|message| Some((message.api_version?, message)))
    }

    /// Returns the name in the table, for example `apps.v1.Deployment`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name without the package, for example `Deployment`: the kind, if the message is one.
    pub fn short_name(&self) -> &'static str {
        self.short_name
    }

    /// Returns whether the zero of a field differs from an absent field; `false` for an unknown field.
    pub fn keeps_zero(&'static self, field: &str) -> bool {
        let found = self.member(field);
        found.is_some_and(|found| found.presence != Presence::Omitted)
    }

    pub(crate) fn fields(&'static self) -> &'static [FieldRow] {
        &self.fields
    }

    pub(crate) fn field(&'static self, number: u32) -> Option<(usize, Row)> {
        let place = *self.by_number.get(usize::try_from(number).ok()?)?;
        let index = usize::from(place).checked_sub(1)?;
        Some((index, self.fields.get(index)?))
    }

    /// Returns the field with a name in JSON, which may belong to an embedded message.
    pub(crate) fn member(&'static self, name: &str) -> Option<Row> {
        self.fields.iter().find_map(|field| match field.kind {
            FieldKind::Message(part) if field.name.is_empty() => part.message().member(name),
            _ => (field.name == name).then_some(field),
        })
    }

    /// Returns the fields that JSON always has and that are not in `seen`, a bit set of field indexes.
    pub(crate) fn missing(&'static self, seen: u64) -> impl Iterator<Item = Row> {
        let mut missing = self.always & !seen;
        std::iter::from_fn(move || {
            let index = usize::try_from(missing.trailing_zeros()).ok()?;
            missing &= missing.wrapping_sub(1);
            self.fields.get(index)
        })
    }
}

impl MessageId {
    pub(crate) fn message(self) -> &'static Message {
        &table().messages[usize::from(self.0)]
    }
}

fn table() -> &'static MessageTable {
    static TABLE: OnceLock<MessageTable> = OnceLock::new();
    TABLE.get_or_init(|| read(TEXT))
}

fn read(text: &'static str) -> MessageTable {
    let lines: Vec<&'static str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let name = |line: &'static str| line.split(' ').next().unwrap_or_default();
    let ids = (0_u16..).map(MessageId);
    let by_name: FnvHashMap<_, _> = lines.iter().map(|line| name(line)).zip(ids).collect();
    let messages: Vec<Message> = lines.iter().map(|line| message(line, &by_name)).collect();
    let kinds = messages.iter().filter_map(|message| {
        let id = *by_name.get(message.name)?;
        Some(((message.api_version?, message.short_name()), id))
    });
    MessageTable {
        kinds: kinds.collect(),
        messages,
        by_name,
    }
}

fn message(line: &'static str, by_name: &FnvHashMap<&'static str, MessageId>) -> Message {
    let mut words = line.split(' ').peekable();
    let name = words.next().unwrap_or_default();
    let api_version = words.next_if(|word| word.starts_with('@'));
    let fields: Vec<FieldRow> = words.filter_map(|word| field(word, by_name)).collect();
    let last = fields.iter().map(|field| field.number).max();
    let mut by_number = vec![0; last.map_or(0, |last| last as usize + 1)];
    let mut always = 0;
    for (index, field) in fields.iter().enumerate() {
        by_number[field.number as usize] = u8::try_from(index + 1).unwrap_or_default();
        // Fields of an embedded message become fields of its owner, and may be such that JSON always has them.
        let is_written = matches!(field.presence, Presence::Always | Presence::Nullable);
        if is_written || field.name.is_empty() {
            always |= 1 << index;
        }
    }
    Message {
        name,
        short_name: name.rsplit('.').next().unwrap_or_default(),
        api_version: api_version.map(|word| &word[1..]),
        fields,
        by_number,
        always,
    }
}

/// Parses one field; `None` if it is invalid. A test checks that the table has no invalid field.
fn field(word: &'static str, by_name: &FnvHashMap<&'static str, MessageId>) -> Option<FieldRow> {
    let (number, rest) = word.split_once(':')?;
    let (name, kind) = rest.split_once('=')?;
    let (shape, kind) = if let Some(items) = kind.strip_prefix("[]") {
        (Cardinality::List, items)
    } else if let Some(values) = kind.strip_prefix("{}") {
        (Cardinality::Map, values)
    } else {
        (Cardinality::One, kind)
    };
    let kind = match kind {
        "string" => FieldKind::String,
        "bool" => FieldKind::Bool,
        "int32" => FieldKind::Int32,
        "int64" => FieldKind::Int64,
        "double" => FieldKind::Double,
        "bytes" => FieldKind::Bytes,
        "quantity" => FieldKind::Quantity,
        "intOrString" => FieldKind::IntOrString,
        "time" => FieldKind::Time,
        "microTime" => FieldKind::MicroTime,
        "raw" => FieldKind::Raw,
        "strings" => FieldKind::Strings,
        "schemaOrArray" => FieldKind::SchemaOrArray,
        "schemaOrBool" => FieldKind::SchemaOrBool,
        "schemaOrStrings" => FieldKind::SchemaOrStrings,
        message => FieldKind::Message(*by_name.get(message)?),
    };
    let (name, presence) = if let Some(name) = name.strip_suffix('*') {
        (name, Presence::Pointer)
    } else if let Some(name) = name.strip_suffix('?') {
        (name, Presence::Nullable)
    } else if let Some(name) = name.strip_suffix('!') {
        (name, Presence::Always)
    } else {
        (name, Presence::Omitted)
    };
    Some(FieldRow {
        number: number.parse().ok()?,
        name,
        member: format!(",\"{name}\":"),
        presence,
        shape,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_every_message_is_there() {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#'));
        for (line, message) in lines.zip(&table().messages) {
            let words = line.split(' ').skip(1);
            let fields = words.filter(|word| !word.starts_with('@')).count();
            assert_eq!(message.fields.len(), fields, "{}", message.name);
            assert!(fields <= 64, "{}: more fields than bits", message.name);
            let numbers = message.fields.iter().map(|field| field.number);
            assert!(numbers.is_sorted(), "{}", message.name);
        }
    }

    #[test]
    fn kinds_are_found_by_their_api_version() {
        let name = |api_version, kind| Message::of_kind(api_version, kind).map(Message::name);
        assert_eq!(name("v1", "Pod"), Some("core.v1.Pod"));
        assert_eq!(
            name("rbac.authorization.k8s.io/v1", "Role"),
            Some("rbac.v1.Role")
        );
        assert_eq!(name("apps/v1", "Pod"), None);
        assert_eq!(name("apps.example.com/v1", "Deployment"), None);
        assert_eq!(
            name("batch/v1", "DeleteOptions"),
            Some("meta.v1.DeleteOptions")
        );
    }
}
