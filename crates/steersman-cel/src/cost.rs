//! Machine: estimates the worst-case cost of an expression at compile time.
//!
//! The rules are those of cel-go's `checker/cost.go` and of `apiserver/pkg/cel/library/cost.go`.

pub(crate) mod cost_range;
mod call_cost;

use std::sync::Arc;

use crate::check::Checked;
use crate::syntax::ast::{Fold, Kind, Literal, Node};
use crate::types::{Decl, Type};
use cost_range::Range;

/// The sizes of the keys and of the values of a list or map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entries {
    key: Range,
    value: Range,
}

struct Local {
    name: String,
    decl: Option<Arc<Decl>>,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// The state of estimating one expression.
pub(super) struct Coster<'a> {
    pub(super) checked: &'a Checked,
    root: &'a Arc<Decl>,
    locals: Vec<Local>,
    decls: Vec<Option<Arc<Decl>>>,
    pub(super) sizes: Vec<Option<Range>>,
    pub(super) entries: Vec<Option<Entries>>,
}

/// A call that resolved to one overload, and the estimated costs of its arguments.
pub(super) struct Call<'a> {
    pub(super) node: &'a Node,
    pub(super) name: &'a str,
    pub(super) overload: &'a str,
    pub(super) target: Option<&'a Node>,
    pub(super) args: &'a [Node],
    pub(super) costs: &'a [Range],
}

/// Returns the worst-case cost of an expression with the variables that `root` declares.
#[must_use]
pub(crate) fn estimate(node: &Node, checked: &Checked, root: &Arc<Decl>) -> u64 {
    let parts = checked.types.len();
    let mut coster = Coster {
        checked,
        root,
        locals: Vec::new(),
        decls: vec![None; parts],
        sizes: vec![None; parts],
        entries: vec![None; parts],
    };
    coster.cost(node).max
}

impl Coster<'_> {
    fn cost(&mut self, node: &Node) -> Range {
        match &node.kind {
            Kind::Literal(_) => Range::exactly(0),
            Kind::Message { fields, .. } => {
                let mut cost = Range::exactly(40);
                for field in fields {
                    cost = cost.plus(self.cost(&field.value));
                }
                cost
            }
            Kind::Ident(name) => {
                let local = self.local(name).map(|local| local.decl.clone());
                self.decls[node.id] = local.unwrap_or_else(|| Some(Arc::clone(self.root)));
                Range::exactly(1)
            }
            Kind::Select { operand, test, .. } if *test => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let mut cost = self.cost(operand);
                if matches!(
                    self.checked.types[operand.id],
                    Type::Map(_) | Type::Object(_)
                ) {
                    cost = cost.plus(Range::exactly(1));
                }
                self.decls[node.id] = match self.decl(operand).map(|decl| decl.kind.clone()) {
                    Some(Type::Object(object)) => object
                        .fields
                        .get(field)
                        .map(|field| Arc::clone(&field.decl)),
                    _ => None,
                };
                cost
            }
            Kind::Call { name, target, args } => self.call(node, name, target.as_deref(), args),
            Kind::List { items, .. } => {
                let mut cost = Range::exactly(10);
                let mut size: Option<Range> = None;
                for item in items {
                    cost = cost.plus(self.cost(item));
                    let found = self.size_or_unknown(item);
                    size = Some(size.map_or(found, |size| size.or(found)));
                }
                self.entries[node.id] = Some(Entries {
                    key: Range::exactly(1),
                    value: size.unwrap_or(Range::exactly(0)),
                });
                cost
            }
            Kind::Map(entries) => {
                let mut cost = Range::exactly(30);
                let mut sizes: Option<Entries> = None;
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key));
                    cost = cost.plus(self.cost(&entry.value));
                    let key = self.size_or_unknown(&entry.key);
                    let value = self.size_or_unknown(&entry.value);
                    sizes = Some(sizes.map_or(Entries { key, value }, |sizes| Entries {
                        key: sizes.key.or(key),
                        value: sizes.value.or(value),
                    }));
                }
                let none = Range::exactly(0);
                let none = Entries {
                    key: none,
                    value: none,
                };
                self.entries[node.id] = Some(sizes.unwrap_or(none));
                cost
            }
            Kind::Fold(fold) => self.fold(node, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    pub(super) fn decl(&self, node: &Node) -> Option<Arc<Decl>> {
        self.decls[node.id].clone()
    }

    fn fold(&mut self, node: &Node, fold: &Fold) -> Range {
        let mut cost = self.cost(&fold.range);
        cost = cost.plus(self.cost(&fold.init));
        let local = Local {
            name: fold.accu.clone(),
            decl: self.decl(&fold.init),
            size: self.size(&fold.init),
            entries: self.entry_sizes(&fold.init),
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
            Kind::Literal(_) => self.sizes[node.id] = self.size(&fold.init),
            Kind::List { .. } | Kind::Map(_) => {
                self.sizes[node.id] = Some(count);
                if let Some(entries) = self.entry_sizes(&fold.step) {
                    self.entries[node.id] = Some(entries);
                }
            }
            _ => {}
        }
        cost
    }

    /// Adds the variables of a loop to the scope.
    fn iterate(&mut self, fold: &Fold) {
        let decl = self.decl(&fold.range);
        let entries = self.entry_sizes(&fold.range);
        let is_list = matches!(self.checked.types[fold.range.id], Type::List(_));
        let items = decl.as_ref().and_then(|decl| decl.items.clone());
        // The schema declares no size for the keys of maps.
        let keys = decl
            .filter(|decl| matches!(decl.kind, Type::Map(_)))
            .map(|_| {
                Arc::new(Decl {
                    kind: Type::String,
                    most: 0,
                    ..Decl::any()
                })
            });
        let value = Local {
            name: fold.var.clone(),
            decl: items,
            size: entries.map(|entries| entries.value),
            entries: None,
        };
        let key = Local {
            name: fold.var.clone(),
            decl: if is_list { None } else { keys },
            size: entries.map(|entries| entries.key),
            entries: None,
        };
        match &fold.var2 {
            Some(var2) => {
                self.locals.push(key);
                let name = var2.clone();
                self.locals.push(Local { name, ..value });
            }
            None if is_list => self.locals.push(value),
            None => self.locals.push(key),
        }
    }

    fn call(&mut self, node: &Node, name: &str, target: Option<&Node>, args: &[Node]) -> Range {
        if name == "dyn"
            && let [arg] = args
        {
            let cost = self.cost(arg).plus(Range::exactly(1));
            self.sizes[node.id] = self.size(arg);
            self.entries[node.id] = self.entry_sizes(arg);
            return cost;
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(arg)).collect();
        let mut cost = target.map_or(Range::exactly(0), |target| self.cost(target));
        let checked = self.checked;
        let overloads = &checked.overloads[node.id];
        let mut own: Option<Range> = None;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let call = Call {
                node,
                name,
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
                self.decls[node.id] = self.decl(from).and_then(|decl| decl.items.clone());
            }
            if size.is_none() {
                size = self.size(node);
            }
        }
        if size.is_some() {
            self.sizes[node.id] = size;
        }
        cost = cost.plus(own.unwrap_or(Range::exactly(0)));
        cost
    }

    pub(super) fn size_or_unknown(&mut self, node: &Node) -> Range {
        self.size(node).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, node: &Node) -> Option<Range> {
        if let Some(size) = self.sizes[node.id] {
            return Some(size);
        }
        match &node.kind {
            Kind::Literal(Literal::Text(text)) => {
                return Some(Range::exactly(text.chars().count() as u64));
            }
            Kind::Literal(Literal::Bytes(bytes)) => {
                return Some(Range::exactly(bytes.len() as u64));
            }
            Kind::Literal(_) => return Some(Range::exactly(1)),
            Kind::List { items, .. } => return Some(Range::exactly(items.len() as u64)),
            Kind::Map(entries) => return Some(Range::exactly(entries.len() as u64)),
            _ => {}
        }
        if let Some(decl) = &self.decls[node.id] {
            let size = declared(decl);
            self.sizes[node.id] = Some(size);
            return Some(size);
        }
        if self.checked.types[node.id].is_scalar() {
            return Some(Range::exactly(1));
        }
        match &node.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    pub(super) fn entry_sizes(&self, node: &Node) -> Option<Entries> {
        if let Some(entries) = self.entries[node.id] {
            return Some(entries);
        }
        match &node.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }
}

pub(super) fn declared(decl: &Decl) -> Range {
    Range {
        min: 0,
        max: decl.most,
    }
}

pub(super) fn joined(a: Option<Entries>, b: Option<Entries>) -> Option<Entries> {
    let (a, b) = (a?, b?);
    Some(Entries {
        key: a.key.or(b.key),
        value: a.value.or(b.value),
    })
}

/// Returns whether a loop is the expansion of `cel.bind`, which has no iterations and only binds a
/// value to a name.
fn is_bind(fold: &Fold) -> bool {
    matches!(&fold.range.kind, Kind::List { items, .. } if items.is_empty())
        && matches!(fold.cond.kind, Kind::Literal(Literal::Bool(false)))
}
