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
use serde_json::Value;

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
        kind: ListKindBuf,
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

/// The owned form of [`ListKind`].
#[derive(Debug)]
pub(super) enum ListKindBuf {
    Atomic,
    Set,
    Map {
        keys: Vec<String>,
        defaults: Vec<Option<&'static str>>,
    },
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

impl ListKindBuf {
    pub(super) fn view(&'static self) -> ListKind<'static> {
        match self {
            Self::Atomic => ListKind::Atomic,
            Self::Set => ListKind::Set,
            Self::Map { keys, .. } => ListKind::Map(keys),
        }
    }

    pub(super) fn default_of(&self, key: &str) -> Option<Value> {
        let Self::Map { keys, defaults } = self else {
            return None;
        };
        let at = keys.iter().position(|one| one == key)?;
        defaults.get(at)?.map(Value::from)
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
        let (kind, patch) = list_of(list);
        let items = Box::new(node_of(items));
        return TypeNode::List { items, kind, patch };
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

fn list_of(text: &'static str) -> (ListKindBuf, ListPatch<'static>) {
    let (kind, patch) = match text.split_once('|') {
        Some((kind, patch)) => (kind, Some(patch)),
        None => (text, None),
    };
    let keys = kind.strip_prefix("map:").map(|keys| {
        let keys = keys.split(',').map(|key| match key.split_once('=') {
            Some((key, default)) => (key, Some(default)),
            None => (key, None),
        });
        keys.collect::<Vec<_>>()
    });
    let patch = match (patch, keys.as_deref()) {
        (Some("union"), _) => ListPatch::Union,
        (None, Some([(key, _)])) => ListPatch::MergeBy(key),
        (Some("replace") | None, _) => ListPatch::Replace,
        (Some(by), _) => ListPatch::MergeBy(by.trim_start_matches("by:")),
    };
    let kind = match keys {
        Some(keys) => {
            let owned = keys
                .into_iter()
                .map(|(key, default)| (key.to_owned(), default));
            let (keys, defaults) = owned.unzip();
            ListKindBuf::Map { keys, defaults }
        }
        None if kind == "set" => ListKindBuf::Set,
        None => ListKindBuf::Atomic,
    };
    (kind, patch)
}
