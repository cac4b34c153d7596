//! Words: a parsed expression.

use std::sync::Arc;

/// One node of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The number of the node, which is its index in the tables of other modules.
    pub id: usize,
    /// The position in the source, in characters.
    pub at: usize,
    pub kind: Kind,
}

/// The kind of a node.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Node>,
        field: String,
        /// Whether the node is `has(…)`, which tests the field instead of reading it.
        test: bool,
    },
    Call {
        name: String,
        target: Option<Box<Node>>,
        args: Vec<Node>,
    },
    List {
        items: Vec<Node>,
        /// The indexes of the optional items, which are omitted if they have no value.
        optional: Vec<usize>,
    },
    Map(Vec<Entry>),
    Fold(Box<Fold>),
    /// An object of a named type, such as `Object.spec{replicas: 3}`.
    Message {
        name: String,
        fields: Vec<MessageField>,
    },
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// One field of a message.
#[derive(Debug, Clone)]
pub(crate) struct MessageField {
    pub name: String,
    pub value: Node,
    /// Whether the field is optional, so that it is omitted if it has no value.
    pub optional: bool,
}

/// One entry of a map.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: Node,
    pub value: Node,
    pub optional: bool,
}

/// The loop that macros such as `all` expand to. It iterates over `range`, accumulates in `accu`
/// and returns `result`.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub range: Node,
    pub var: String,
    /// The second variable of a loop over index and item, or key and value.
    pub var2: Option<String>,
    pub accu: String,
    pub init: Node,
    pub cond: Node,
    pub step: Node,
    pub result: Node,
}

impl Node {
    /// Returns the dotted name that a chain of an identifier and fields spells, such as `a.b.c`.
    pub(crate) fn qualified(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                test: false,
            } => Some(format!("{}.{field}", operand.qualified()?)),
            _ => None,
        }
    }

    /// Returns whether the node is the variable with this name.
    pub(crate) fn is_ident(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Ident(found) if found == name)
    }
}

/// The variable that holds the target of `optMap` and `optFlatMap`.
pub(crate) const TARGET: &str = "@target";

impl Node {
    /// Returns the direct parts of the node, in the order of upstream's planner.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        let mut parts: Vec<&Self> = Vec::new();
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => parts.push(operand),
            Kind::Call { target, args, .. } => {
                parts.extend(target.as_deref());
                parts.extend(args);
            }
            Kind::List { items, .. } => parts.extend(items),
            Kind::Map(entries) => {
                parts.extend(entries.iter().flat_map(|entry| [&entry.key, &entry.value]));
            }
            Kind::Message { fields, .. } => parts.extend(fields.iter().map(|field| &field.value)),
            Kind::Fold(fold) => parts.extend([
                &fold.init,
                &fold.range,
                &fold.cond,
                &fold.step,
                &fold.result,
            ]),
        }
        parts.into_iter()
    }
}
