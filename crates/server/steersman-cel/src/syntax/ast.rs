//! Words: `ExprNode`, the nodes of a parsed expression.

use crate::value::Value;

#[derive(Debug, Clone)]
pub(crate) struct ExprNode {
    /// The number of the node in its expression, from 0: its index in tables such as that of the types.
    pub id: usize,
    /// The position of the node in the source, in characters; error messages point to it.
    pub at: usize,
    pub kind: NodeKind,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Literal(Value<'static>),
    Ident(String),
    Select {
        operand: Box<ExprNode>,
        field: String,
        /// Whether the node is `has(a.b)`, which tests for the field and does not read it.
        test: bool,
    },
    Call {
        name: String,
        target: Option<Box<ExprNode>>,
        args: Vec<ExprNode>,
    },
    List {
        items: Vec<ExprNode>,
        /// The indexes of the items written `?item`: such an item is an optional, and left out if empty.
        optional: Vec<usize>,
    },
    Map(Vec<MapEntry>),
    Fold(Box<Fold>),
    /// An object of a named type, such as `Object.spec{replicas: 3}`.
    Message {
        name: String,
        fields: Vec<MessageField>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct MessageField {
    pub name: String,
    pub value: ExprNode,
    /// Whether the field is written `?field`: its value is an optional, and the field is left out if it is empty.
    pub optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub key: ExprNode,
    pub value: ExprNode,
    pub optional: bool,
}

/// The loop of macros such as `all`: `accu` starts as `init`; while `cond` is true, each item of `range` sets `accu` to
/// `step`. The value of the loop is `result`.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub range: ExprNode,
    pub var: String,
    /// The second variable, if the loop has two: `var` is then the index or key, and `var2` the item or value.
    pub var2: Option<String>,
    pub accu: String,
    pub init: ExprNode,
    pub cond: ExprNode,
    pub step: ExprNode,
    pub result: ExprNode,
}

/// The variable to which the macros `optMap` and `optFlatMap` bind their target.
pub(crate) const TARGET: &str = "@target";

impl ExprNode {
    /// Returns the dotted name that the node spells, such as `a.b.c`, or `None` for another expression.
    pub(crate) fn qualified(&self) -> Option<String> {
        match &self.kind {
            NodeKind::Ident(name) => Some(name.clone()),
            NodeKind::Select {
                operand,
                field,
                test: false,
            } => Some(format!("{}.{field}", operand.qualified()?)),
            _ => None,
        }
    }

    pub(crate) fn is_ident(&self, name: &str) -> bool {
        matches!(&self.kind, NodeKind::Ident(found) if found == name)
    }

    /// Returns the node's children in the order in which cel-go plans them, so that of several constants that fail the
    /// same one is reported.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        let mut parts: Vec<&Self> = Vec::new();
        match &self.kind {
            NodeKind::Literal(_) | NodeKind::Ident(_) => {}
            NodeKind::Select { operand, .. } => parts.push(operand),
            NodeKind::Call { target, args, .. } => {
                parts.extend(target.as_deref());
                parts.extend(args);
            }
            NodeKind::List { items, .. } => parts.extend(items),
            NodeKind::Map(entries) => {
                parts.extend(entries.iter().flat_map(|entry| [&entry.key, &entry.value]));
            }
            NodeKind::Message { fields, .. } => {
                parts.extend(fields.iter().map(|field| &field.value))
            }
            NodeKind::Fold(fold) => parts.extend([
                &fold.init, &fold.range, &fold.cond, &fold.step, &fold.result,
            ]),
        }
        parts.into_iter()
    }
}
