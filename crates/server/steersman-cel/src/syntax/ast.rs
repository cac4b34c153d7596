//! Words: `ExprNode`, the nodes of a parsed expression.

use crate::value::Value;

#[derive(Debug, Clone)]
pub(crate) struct ExprNode {
    /// The number of the node, by which the tables of other modules are indexed.
    pub id: usize,
    /// The position of the node in the source, in characters.
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
        /// Whether the node is `has(…)`, which tests the field instead of reading it.
        test: bool,
    },
    Call {
        name: String,
        target: Option<Box<ExprNode>>,
        args: Vec<ExprNode>,
    },
    List {
        items: Vec<ExprNode>,
        /// The indexes of the optional items, which are left out if they have no value.
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
    /// Whether the field is optional: it is left out if it has no value.
    pub optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub key: ExprNode,
    pub value: ExprNode,
    pub optional: bool,
}

/// The loop that macros such as `all` expand to: from `init` over `step` to `result`.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub range: ExprNode,
    pub var: String,
    /// The second variable of a loop: its variables are an index and an item, or a key and a value.
    pub var2: Option<String>,
    pub accu: String,
    pub init: ExprNode,
    pub cond: ExprNode,
    pub step: ExprNode,
    pub result: ExprNode,
}

/// The variable that holds the target of `optMap` and `optFlatMap`.
pub(crate) const TARGET: &str = "@target";

impl ExprNode {
    /// Returns the dotted name that the node spells if it is a chain of an identifier and fields, such as `a.b.c`.
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

    /// Returns the direct parts of the node, in the order in which cel-go plans their evaluation.
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
