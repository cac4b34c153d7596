//! Machine: reads the generated table of protobuf messages, once, on first use.
//!
//! Each line describes one message: its name, and its fields as `number:name=kind`.
//!
//! - `*` after the name of a field means that a zero differs from an absent field. Without it, JSON
//!   omits a zero, because Go writes a zero for an unset field.
//! - A field without a name is an embedded message: its fields are members of the owner.
//! - A kind that contains a dot is a message. `[]` before the kind makes the field a list, `{}` a
//!   map with string keys.

use std::collections::HashMap;
use std::sync::OnceLock;

/// The generated table.
const TEXT: &str = include_str!("../protobuf.txt");

/// One field of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON; empty for an embedded message, which adds its fields to the owner.
    pub(super) name: &'static str,
    /// Whether JSON keeps a zero, because it differs from an absent field.
    pub(super) keeps_zero: bool,
    pub(super) shape: Cardinality,
    pub(super) kind: FieldKind,
}

/// Whether a field holds one value, a list or a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cardinality {
    One,
    List,
    Map,
}

/// The type of a field, of a list's elements or of a map's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Message(&'static str),
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

/// Returns the fields of a message; empty for a message that is not in the table.
pub(super) fn message(name: &str) -> &'static [Field] {
    static TABLE: OnceLock<HashMap<&'static str, Vec<Field>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| lines().collect());
    table.get(name).map_or(&[], Vec::as_slice)
}

fn lines() -> impl Iterator<Item = (&'static str, Vec<Field>)> {
    let lines = TEXT.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        (name, words.filter_map(field).collect())
    })
}

/// Parses one field. Returns `None` for an invalid field; a test checks that the table has none.
fn field(word: &'static str) -> Option<Field> {
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
        name if name.contains('.') => FieldKind::Message(name),
        _ => return None,
    };
    Some(Field {
        number: number.parse().ok()?,
        name: name.trim_end_matches('*'),
        keeps_zero: name.ends_with('*'),
        shape,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_every_message_is_there() {
        let words: usize = TEXT
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(' ').count() - 1)
            .sum();
        let all: Vec<_> = lines().collect();
        assert_eq!(
            all.iter().map(|(_, fields)| fields.len()).sum::<usize>(),
            words
        );
        for (owner, fields) in &all {
            for field in fields {
                if let FieldKind::Message(name) = field.kind {
                    let found = all.iter().any(|(known, _)| *known == name);
                    assert!(found, "{owner}.{}: there is no message {name}", field.name);
                }
            }
        }
    }
}
