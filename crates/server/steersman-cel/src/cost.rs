//! Machine: estimates the worst-case cost of an expression at compile time.
//!
//! The rules are those of cel-go's `checker/cost.go` and of `apiserver/pkg/cel/library/cost.go`.

mod call_cost;

use std::sync::Arc;

use crate::check::Checked;
use crate::cost_range::Range;
use crate::library::Function;
use crate::syntax::ast::{ExprNode, Fold, NodeKind, TARGET};
use crate::types::{Decl, Type};
use crate::value::Value;

#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySizes {
    is_list: bool,
    key: Range,
    value: Range,
}

#[derive(Debug, Clone)]
pub(super) enum SchemaPosition {
    /// The expression computes the value. Kubernetes estimates each part of such a value as the root of the schema.
    Computed,
    /// The schema declares the value.
    Declared(Arc<Decl>),
    /// The value is a part of a declared value, but the schema does not declare the part or its size.
    Undeclared,
}

enum PathStep<'a> {
    Field(&'a str),
    /// A step from a list to an item, or from a map to a value.
    Element,
    Key,
    Index,
}

struct Local {
    name: String,
    position: SchemaPosition,
    size: Option<Range>,
    entries: Option<EntrySizes>,
    /// The cost of one use of the variable.
    cost: Range,
}

pub(super) struct Coster<'a> {
    pub(super) checked: &'a Checked,
    root: &'a Arc<Decl>,
    locals: Vec<Local>,
    positions: Vec<SchemaPosition>,
    pub(super) sizes: Vec<Option<Range>>,
    pub(super) entries: Vec<Option<EntrySizes>>,
}

/// A call of one overload of a function, with the estimated cost of each argument.
pub(super) struct ResolvedCall<'a> {
    pub(super) node: &'a ExprNode,
    pub(super) function: &'a Function,
    pub(super) overload: &'a str,
    pub(super) target: Option<&'a ExprNode>,
    pub(super) args: &'a [ExprNode],
    pub(super) costs: &'a [Range],
}

/// Returns the highest cost that one run of an expression can have; `root` declares its variables.
pub(crate) fn estimate(node: &ExprNode, checked: &Checked, root: &Arc<Decl>) -> u64 {
    let parts = checked.types.len();
    let mut coster = Coster {
        checked,
        root,
        locals: Vec::new(),
        positions: vec![SchemaPosition::Computed; parts],
        sizes: vec![None; parts],
        entries: vec![None; parts],
    };
    coster.cost(node).max
}

impl Coster<'_> {
    fn cost(&mut self, node: &ExprNode) -> Range {
        match &node.kind {
            NodeKind::Literal(_) => Range::exactly(0),
            NodeKind::Message { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(&field.value));
                costs.fold(Range::exactly(40), Range::plus)
            }
            NodeKind::Ident(name) => {
                let local = self.local(name);
                let cost = local.map_or(Range::exactly(1), |local| local.cost);
                let position = local.map(|local| local.position.clone());
                let root = || SchemaPosition::Declared(Arc::clone(self.root));
                self.positions[node.id] = position.unwrap_or_else(root);
                cost
            }
            NodeKind::Select { operand, test, .. } if *test => self.cost(operand),
            NodeKind::Select { operand, field, .. } => {
                let mut cost = self.cost(operand);
                if matches!(
                    self.checked.types[operand.id],
                    Type::Map(_) | Type::Object(_)
                ) {
                    cost = cost.plus(Range::exactly(1));
                }
                self.positions[node.id] = self.part(operand, &PathStep::Field(field));
                cost
            }
            NodeKind::Call { target, args, .. } => self.call(node, target.as_deref(), args),
            NodeKind::List { items, .. } => {
                let mut cost = Range::exactly(10);
                let mut size: Option<Range> = None;
                for item in items {
                    cost = cost.plus(self.cost(item));
                    let found = self.size_or_unknown(item);
                    size = Some(size.map_or(found, |size| size.or(found)));
                }
                self.entries[node.id] = Some(EntrySizes {
                    is_list: true,
                    key: Range::exactly(1),
                    value: size.unwrap_or(Range::exactly(0)),
                });
                cost
            }
            NodeKind::Map(entries) => {
                let mut cost = Range::exactly(30);
                let mut sizes: Option<EntrySizes> = None;
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key));
                    cost = cost.plus(self.cost(&entry.value));
                    let key = self.size_or_unknown(&entry.key);
                    let found = EntrySizes::of_map(key, self.size_or_unknown(&entry.value));
                    sizes = Some(sizes.map_or(found, |sizes| sizes.or(found)));
                }
                let none = EntrySizes::of_map(Range::exactly(0), Range::exactly(0));
                self.entries[node.id] = Some(sizes.unwrap_or(none));
                cost
            }
            NodeKind::Fold(fold) => self.fold(node, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn part(&self, of: &ExprNode, step: &PathStep<'_>) -> SchemaPosition {
        let decl = match self.position(of) {
            SchemaPosition::Computed => return SchemaPosition::Declared(Arc::clone(self.root)),
            SchemaPosition::Undeclared => return SchemaPosition::Undeclared,
            SchemaPosition::Declared(decl) => decl,
        };
        let part = match (step, &decl.kind) {
            // As in Kubernetes, a field is looked up by its unescaped name. The schema has the escaped name, so a field
            // with a reserved name, such as `namespace` (escaped: `__namespace__`), has no known size.
            (PathStep::Field(name), Type::Object(object)) => {
                let field = object.fields.get(*name);
                field.map(|field| Arc::clone(&field.decl))
            }
            (PathStep::Element, _) => decl.items.clone(),
            (PathStep::Key, Type::Map(_)) => Some(Arc::new(Decl::key())),
            _ => None,
        };
        part.map_or(SchemaPosition::Undeclared, SchemaPosition::Declared)
    }

    fn position(&self, node: &ExprNode) -> SchemaPosition {
        let local = match &node.kind {
            NodeKind::Ident(name) => self.local(name),
            _ => None,
        };
        let position = local.map_or(&self.positions[node.id], |local| &local.position);
        position.clone()
    }

    pub(super) fn item_size(&self, list: &ExprNode) -> Range {
        match self.position(list) {
            SchemaPosition::Declared(decl) => {
                let items = decl.items.as_ref();
                items.map_or(Range::UNKNOWN, |items| Range::up_to(items.most))
            }
            _ => Range::UNKNOWN,
        }
    }

    fn fold(&mut self, node: &ExprNode, fold: &Fold) -> Range {
        let mut cost = self.cost(&fold.range);
        let init = self.cost(&fold.init);
        cost = cost.plus(init);
        let mut each_use = Range::exactly(1);
        if fold.accu == TARGET {
            (cost, each_use) = (Range::exactly(0), init);
        }
        let local = Local {
            name: fold.accu.clone(),
            position: self.position(&fold.init),
            size: self.size(&fold.init),
            entries: self.entry_sizes(&fold.init),
            cost: each_use,
        };
        self.locals.push(local);
        if is_bind(fold) {
            cost = cost.plus(self.cost(&fold.result));
            self.locals.pop();
            self.sizes[node.id] = self.size(&fold.result);
            self.entries[node.id] = self.entry_sizes(&fold.result);
            return cost;
        }
        let inside = self.locals.len();
        self.iterate(fold);
        let each = self.cost(&fold.cond).plus(self.cost(&fold.step));
        self.locals.truncate(inside);
        cost = cost.plus(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(&fold.range);
        cost = cost.plus(count.times(each));
        match fold.init.kind {
            NodeKind::Literal(_) => self.sizes[node.id] = self.size(&fold.init),
            NodeKind::List { .. } | NodeKind::Map(_) => {
                self.sizes[node.id] = Some(count);
                if let Some(entries) = self.entry_sizes(&fold.step) {
                    self.entries[node.id] = Some(entries);
                }
            }
            _ => {}
        }
        cost
    }

    fn iterate(&mut self, fold: &Fold) {
        let entries = self.entry_sizes(&fold.range);
        let is_list = entries.map_or_else(
            || matches!(self.checked.types[fold.range.id], Type::List(_)),
            |entries| entries.is_list,
        );
        let key_step = if is_list {
            PathStep::Index
        } else {
            PathStep::Key
        };
        let key = Local {
            name: fold.var.clone(),
            position: self.part(&fold.range, &key_step),
            size: entries.map(|entries| entries.key),
            entries: None,
            cost: Range::exactly(1),
        };
        let value = Local {
            name: fold.var2.clone().unwrap_or_else(|| fold.var.clone()),
            position: self.part(&fold.range, &PathStep::Element),
            size: entries.map(|entries| entries.value),
            entries: None,
            cost: Range::exactly(1),
        };
        match &fold.var2 {
            Some(_) => self.locals.extend([key, value]),
            None if is_list => self.locals.push(value),
            None => self.locals.push(key),
        }
    }

    fn call(&mut self, node: &ExprNode, target: Option<&ExprNode>, args: &[ExprNode]) -> Range {
        let checked = self.checked;
        let Some(function) = checked.functions[node.id] else {
            return Range::exactly(0);
        };
        if let ("dyn", [arg]) = (function.name, args) {
            let cost = self.cost(arg).plus(Range::exactly(1));
            self.sizes[node.id] = self.size(arg);
            self.entries[node.id] = self.entry_sizes(arg);
            return cost;
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(arg)).collect();
        let cost = target.map_or(Range::exactly(0), |target| self.cost(target));
        let overloads = &checked.overloads[node.id];
        let mut own: Option<Range> = None;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let call = ResolvedCall {
                node,
                function,
                overload: overload.id,
                target,
                args,
                costs: &costs,
            };
            let (found, result) = self.function(&call);
            own = Some(own.map_or(found, |own| own.or(found)));
            if let Some(result) = result {
                size = Some(size.map_or(result, |size| size.or(result)));
            }
            if matches!(overload.id, "index_list" | "index_map")
                && let Some(from) = args.first()
            {
                size = self.entry_sizes(from).map(|entries| entries.value);
                self.positions[node.id] = self.part(from, &PathStep::Element);
            }
            if size.is_none() {
                size = self.size(node);
            }
        }
        if size.is_some() {
            self.sizes[node.id] = size;
        }
        cost.plus(own.unwrap_or(Range::exactly(0)))
    }

    pub(super) fn size_or_unknown(&mut self, node: &ExprNode) -> Range {
        self.size(node).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, node: &ExprNode) -> Option<Range> {
        if let Some(size) = self.sizes[node.id] {
            return Some(size);
        }
        match &node.kind {
            NodeKind::Literal(literal) => return Some(Range::exactly(literal.size())),
            NodeKind::List { items, .. } => return Some(Range::exactly(items.len() as u64)),
            NodeKind::Map(entries) => return Some(Range::exactly(entries.len() as u64)),
            _ => {}
        }
        if let SchemaPosition::Declared(decl) = self.position(node) {
            let size = Range::up_to(decl.most);
            self.sizes[node.id] = Some(size);
            return Some(size);
        }
        if self.checked.types[node.id].is_scalar() {
            return Some(Range::exactly(1));
        }
        match &node.kind {
            NodeKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    pub(super) fn entry_sizes(&self, node: &ExprNode) -> Option<EntrySizes> {
        if let Some(entries) = self.entries[node.id] {
            return Some(entries);
        }
        match &node.kind {
            NodeKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }
}

impl EntrySizes {
    fn of_map(key: Range, value: Range) -> Self {
        Self {
            is_list: false,
            key,
            value,
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.or(other.key),
            value: self.value.or(other.value),
        }
    }
}

pub(super) fn joined(a: Option<EntrySizes>, b: Option<EntrySizes>) -> Option<EntrySizes> {
    Some(a?.or(b?))
}

/// Returns whether a loop is the expansion of `cel.bind`, which has no iterations and only names a value.
fn is_bind(fold: &Fold) -> bool {
    matches!(&fold.range.kind, NodeKind::List { items, .. } if items.is_empty())
        && matches!(fold.cond.kind, NodeKind::Literal(Value::Bool(false)))
}
