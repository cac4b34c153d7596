//! Machine: reads the generated table of Kubernetes' own types, once, on first use.
//!
//! Each line describes one type: its name, marks that start with `@`, and its fields as
//! `field:type`. The name of a required field ends in `!`. A type is one of:
//!
//! - a scalar, for instance `string`,
//! - the name of another type, which contains a dot, after `~` if each field of the value has its own owner although
//!   the type has one owner,
//! - `[…]type`, a list. The brackets hold nothing (atomic), `set`, or `map:` and the keys, with a
//!   default as `key=default`. If a strategic merge patch does not follow from that, `|` and one of
//!   `replace`, `union` and `by:` with the merge key come next.
//! - `{…}type`, a map. The braces hold nothing or `atomic`.

use std::collections::HashMap;
use std::sync::OnceLock;

use fnv::FnvHashMap;

use super::{ListKind, ListPatch, Scalar};

pub(super) const TEXT: &str = include_str!("builtin.txt");

#[derive(Debug)]
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) atomic: bool,
    pub(super) fields: FnvHashMap<&'static str, TypeNode>,
    /// The fields that Go writes even if they are zero.
    pub(super) required: Vec<&'static str>,
}

/// The type of a field, of a list's elements or of a map's values.
#[derive(Debug)]
pub(super) enum TypeNode {
    Scalar(Scalar),
    /// A 32-bit [`Scalar::Integer`]. All other integers have 64 bits.
    Int32,
    Any,
    Ref(NamedType),
    List {
        items: Box<Self>,
        kind: ListKind<'static>,
        /// The keys that have a default, each with the default.
        defaults: Vec<(&'static str, &'static str)>,
        patch: ListPatch<'static>,
    },
    Map {
        values: Box<Self>,
        atomic: bool,
    },
}

/// A reference to another type by name. The type is looked up on first use and remembered.
#[derive(Debug)]
pub(super) struct NamedType {
    pub(super) name: &'static str,
    /// Whether each field has its own owner, whatever the type says.
    pub(super) granular: bool,
    found: OnceLock<Option<&'static Type>>,
}

/// All types by name, and the type names of all kinds by `apiVersion` and `kind`.
#[derive(Debug, Default)]
pub(super) struct TypeTable {
    pub(super) types: HashMap<&'static str, Type>,
    kinds: HashMap<(&'static str, &'static str), &'static str>,
}

impl NamedType {
    fn new(text: &'static str) -> Self {
        Self {
            name: text.trim_start_matches('~'),
            granular: text.starts_with('~'),
            found: OnceLock::new(),
        }
    }

    /// Returns the referenced type, or `None` if the table does not have it.
    pub(super) fn ty(&'static self) -> Option<&'static Type> {
        *self.found.get_or_init(|| named(self.name))
    }
}

pub(super) fn named(name: &str) -> Option<&'static Type> {
    table().types.get(name)
}

pub(super) fn kind(api_version: &str, kind: &str) -> Option<&'static Type> {
    let name = table().kinds.get(&(api_version, kind))?;
    named(name)
}

/// Returns the table, read on first use.
pub(super) fn table() -> &'static TypeTable {
    static TABLE: OnceLock<TypeTable> = OnceLock::new();
    TABLE.get_or_init(|| read(TEXT))
}

/// Parses the table. Skips lines and words that it cannot parse; a test checks that there are none.
pub(super) fn read(text: &'static str) -> TypeTable {
    let mut table = TypeTable::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let Some(name) = words.next().filter(|name| !name.is_empty()) else {
            continue;
        };
        let mut read = Type {
            name,
            atomic: false,
            fields: FnvHashMap::default(),
            required: Vec::new(),
        };
        for word in words {
            if word == "@atomic" {
                read.atomic = true;
            } else if let Some(version) = word.strip_prefix("@kind:") {
                let kind = name.rsplit('.').next().unwrap_or(name);
                table.kinds.insert((version, kind), name);
            } else if let Some((field, node)) = word.split_once(':') {
                if let Some(field) = field.strip_suffix('!') {
                    read.required.push(field);
                }
                let field = field.trim_end_matches('!');
                read.fields.insert(field, node_of(node));
            }
        }
        table.types.insert(name, read);
    }
    table
}

fn node_of(text: &'static str) -> TypeNode {
    if let Some((list, items)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        return list_of(list, node_of(items));
    }
    if let Some((map, values)) = text.strip_prefix('{').and_then(|t| t.split_once('}')) {
        return TypeNode::Map {
            values: Box::new(node_of(values)),
            atomic: map == "atomic",
        };
    }
    let scalar = match text {
        "string" => Scalar::String,
        "int32" => return TypeNode::Int32,
        "integer" => Scalar::Integer,
        "number" => Scalar::Number,
        "boolean" => Scalar::Boolean,
        "bytes" => Scalar::Bytes,
        "time" => Scalar::Time,
        "quantity" => Scalar::Quantity,
        "intOrString" => Scalar::IntOrString,
        name if name.contains('.') => return TypeNode::Ref(NamedType::new(name)),
        _ => return TypeNode::Any,
    };
    TypeNode::Scalar(scalar)
}

/// Returns the type of a list with these elements; `text` is the text in its brackets.
fn list_of(text: &'static str, items: TypeNode) -> TypeNode {
    let (kind, patch) = text.split_once('|').unwrap_or((text, ""));
    let (mut keys, mut defaults) = (Vec::new(), Vec::new());
    let entries = kind.strip_prefix("map:").map(|keys| keys.split(','));
    for entry in entries.into_iter().flatten() {
        let (key, default) = entry.split_once('=').unwrap_or((entry, ""));
        keys.push(key.to_owned());
        if !default.is_empty() {
            defaults.push((key, default));
        }
    }
    // The table and these keys live as long as the program.
    let keys: &'static [String] = keys.leak();
    TypeNode::List {
        items: Box::new(items),
        kind: match keys {
            [] if kind == "set" => ListKind::Set,
            [] => ListKind::Atomic,
            _ => ListKind::Map(keys),
        },
        defaults,
        patch: match (patch, keys) {
            ("union", _) => ListPatch::Union,
            ("", [key]) => ListPatch::MergeBy(key),
            ("replace" | "", _) => ListPatch::Replace,
            (by, _) => ListPatch::MergeBy(by.trim_start_matches("by:")),
        },
    }
}
