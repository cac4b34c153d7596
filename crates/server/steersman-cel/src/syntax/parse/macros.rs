//! Machine: expands the macros that the grammar does not know.

use super::TreeReader;
use crate::syntax::ast::{ExprNode, Fold, Literal, NodeKind, TARGET};

/// The variable that accumulates the result of a loop.
const ACCU: &str = "@result";

/// The variable that upstream's macros of one variable use, so that no loop may use it.
const OVERWRITTEN: &str = "__result__";

impl TreeReader<'_> {
    /// Converts a method call, or expands a macro that the parser does not know.
    pub(super) fn member(
        &mut self,
        at: usize,
        name: String,
        target: Box<ExprNode>,
        args: Vec<ExprNode>,
    ) -> ExprNode {
        let count = args.len();
        let known = matches!(
            (name.as_str(), count),
            ("all" | "exists" | "existsOne" | "exists_one", 3)
                | (
                    "transformList" | "transformMap" | "transformMapEntry",
                    3 | 4
                )
                | ("optMap" | "optFlatMap" | "sortBy", 2)
        );
        if !known {
            let target = Some(target);
            return self.made(at, NodeKind::Call { name, target, args });
        }
        let second_at = args.get(1).map(|second| second.at);
        let mut args = args.into_iter();
        let mut variable = || match args.next().map(|one| (one.at, one.kind)) {
            Some((_, NodeKind::Ident(variable))) if variable != OVERWRITTEN => variable,
            found => {
                let (at, kind) = found.unwrap_or((at, NodeKind::Map(Vec::new())));
                let what = match name.as_str() {
                    _ if matches!(kind, NodeKind::Ident(_)) => {
                        "iteration variable overwrites accumulator variable".to_owned()
                    }
                    "optMap" | "optFlatMap" => {
                        format!("{name}() variable name must be a simple identifier")
                    }
                    "sortBy" => "argument is not an identifier".to_owned(),
                    _ => "argument must be a simple name".to_owned(),
                };
                self.mistakes.push((at, what));
                String::new()
            }
        };
        let first = variable();
        if name.starts_with("opt") {
            let made = args.next();
            return match made {
                Some(made) => self.opt_map(at, &name, *target, first, made),
                None => self.literal(at, Literal::Null),
            };
        }
        if name == "sortBy" {
            let key = args.next();
            return match key {
                Some(key) => self.sort_by(at, *target, first, key),
                None => self.literal(at, Literal::Null),
            };
        }
        let second = variable();
        let rest: Vec<ExprNode> = args.collect();
        if first == second && !first.is_empty() {
            let what = format!("duplicate variable name: {first}");
            self.mistakes.push((second_at.unwrap_or(at), what));
        }
        self.two_variables(at, &name, *target, (first, second), rest)
    }

    fn literal(&mut self, at: usize, value: Literal) -> ExprNode {
        self.made(at, NodeKind::Literal(value))
    }

    fn accu(&mut self, at: usize) -> ExprNode {
        self.made(at, NodeKind::Ident(ACCU.to_owned()))
    }

    fn function(&mut self, at: usize, name: &str, args: Vec<ExprNode>) -> ExprNode {
        let name = name.to_owned();
        let target = None;
        self.made(at, NodeKind::Call { name, target, args })
    }

    /// Expands `o.optMap(v, e)`: evaluates `e` with the value of `o` bound to `v`, if `o` has a
    /// value.
    fn opt_map(
        &mut self,
        at: usize,
        name: &str,
        target: ExprNode,
        var: String,
        made: ExprNode,
    ) -> ExprNode {
        // The target is bound to a variable, so that it is evaluated only once.
        let held = TARGET;
        let ident = |reader: &mut Self| reader.made(at, NodeKind::Ident(held.to_owned()));
        let member = |reader: &mut Self, name: &str| {
            let target = Some(Box::new(ident(reader)));
            let name = name.to_owned();
            let args = Vec::new();
            reader.made(at, NodeKind::Call { name, target, args })
        };
        let test = member(self, "hasValue");
        let value = member(self, "value");
        let bound = self.bind(at, var, value, made);
        let some = if name == "optMap" {
            self.function(at, "optional.of", vec![bound])
        } else {
            bound
        };
        let none = self.function(at, "optional.none", Vec::new());
        let choice = self.function(at, "_?_:_", vec![test, some, none]);
        self.bind(at, held.to_owned(), target, choice)
    }

    /// Expands `l.sortBy(v, key)`: evaluates the keys of all items, and orders the items by them.
    fn sort_by(&mut self, at: usize, target: ExprNode, var: String, key: ExprNode) -> ExprNode {
        let held = "@__sortBy_input__";
        let ident = |reader: &mut Self| reader.made(at, NodeKind::Ident(held.to_owned()));
        let list = |reader: &mut Self, items| {
            let optional = Vec::new();
            reader.made(at, NodeKind::List { items, optional })
        };
        let item = list(self, vec![key]);
        let accu = self.accu(at);
        let fold = Fold {
            range: ident(self),
            var,
            var2: None,
            accu: ACCU.to_owned(),
            init: list(self, Vec::new()),
            cond: self.literal(at, Literal::Bool(true)),
            step: self.function(at, "_+_", vec![accu, item]),
            result: self.accu(at),
        };
        let keys = self.made(at, NodeKind::Fold(Box::new(fold)));
        let sorted = NodeKind::Call {
            name: "@sortByAssociatedKeys".to_owned(),
            target: Some(Box::new(ident(self))),
            args: vec![keys],
        };
        let sorted = self.made(at, sorted);
        self.bind(at, held.to_owned(), target, sorted)
    }

    /// Returns a node that evaluates `result` with `value` bound to `var`: a loop without
    /// iterations.
    fn bind(&mut self, at: usize, var: String, value: ExprNode, result: ExprNode) -> ExprNode {
        let items = Vec::new();
        let optional = Vec::new();
        let range = self.made(at, NodeKind::List { items, optional });
        let cond = self.literal(at, Literal::Bool(false));
        let step = self.made(at, NodeKind::Ident(var.clone()));
        let fold = Fold {
            range,
            var: "#unused".to_owned(),
            var2: None,
            accu: var,
            init: value,
            cond,
            step,
            result,
        };
        self.made(at, NodeKind::Fold(Box::new(fold)))
    }

    /// Expands the macros over index and item, or key and value.
    fn two_variables(
        &mut self,
        at: usize,
        name: &str,
        range: ExprNode,
        (var, var2): (String, String),
        rest: Vec<ExprNode>,
    ) -> ExprNode {
        let mut rest = rest.into_iter();
        let filter = if rest.len() > 1 { rest.next() } else { None };
        let Some(last) = rest.next() else {
            return self.literal(at, Literal::Null);
        };
        let (init, cond, step, result) = match name {
            "all" | "exists" => self.quantifier(at, name == "all", last),
            "existsOne" | "exists_one" => self.exactly_one(at, last),
            "transformList" => {
                let (items, optional) = (Vec::new(), Vec::new());
                let init = self.made(at, NodeKind::List { items, optional });
                let (items, optional) = (vec![last], Vec::new());
                let item = self.made(at, NodeKind::List { items, optional });
                let accu = self.accu(at);
                let more = self.function(at, "_+_", vec![accu, item]);
                self.transformation(at, init, more, filter)
            }
            _ => {
                let init = self.made(at, NodeKind::Map(Vec::new()));
                let mut args = vec![self.accu(at)];
                if name == "transformMap" {
                    args.push(self.made(at, NodeKind::Ident(var.clone())));
                }
                args.push(last);
                let more = self.function(at, "cel.@mapInsert", args);
                self.transformation(at, init, more, filter)
            }
        };
        let fold = Fold {
            range,
            var,
            var2: Some(var2),
            accu: ACCU.to_owned(),
            init,
            cond,
            step,
            result,
        };
        self.made(at, NodeKind::Fold(Box::new(fold)))
    }

    /// Returns the parts of a loop that tests whether a condition holds for all or for some items:
    /// its first value, its condition, its step and its result.
    fn quantifier(
        &mut self,
        at: usize,
        all: bool,
        test: ExprNode,
    ) -> (ExprNode, ExprNode, ExprNode, ExprNode) {
        let init = self.literal(at, Literal::Bool(all));
        let accu = self.accu(at);
        let held = if all {
            accu
        } else {
            self.function(at, "!_", vec![accu])
        };
        let cond = self.function(at, "@not_strictly_false", vec![held]);
        let accu = self.accu(at);
        let both = if all { "_&&_" } else { "_||_" };
        let step = self.function(at, both, vec![accu, test]);
        (init, cond, step, self.accu(at))
    }

    /// Returns the parts of a loop that tests whether a condition holds for exactly one item.
    fn exactly_one(
        &mut self,
        at: usize,
        test: ExprNode,
    ) -> (ExprNode, ExprNode, ExprNode, ExprNode) {
        let init = self.literal(at, Literal::Int(0));
        let cond = self.literal(at, Literal::Bool(true));
        let one = self.literal(at, Literal::Int(1));
        let accu = self.accu(at);
        let more = self.function(at, "_+_", vec![accu, one]);
        let accu = self.accu(at);
        let step = self.function(at, "_?_:_", vec![test, more, accu]);
        let one = self.literal(at, Literal::Int(1));
        let accu = self.accu(at);
        let result = self.function(at, "_==_", vec![accu, one]);
        (init, cond, step, result)
    }

    /// Returns the parts of a loop that adds to a list or map what `more` evaluates to, for the items
    /// that pass the filter.
    fn transformation(
        &mut self,
        at: usize,
        init: ExprNode,
        more: ExprNode,
        filter: Option<ExprNode>,
    ) -> (ExprNode, ExprNode, ExprNode, ExprNode) {
        let cond = self.literal(at, Literal::Bool(true));
        let step = match filter {
            Some(filter) => {
                let accu = self.accu(at);
                self.function(at, "_?_:_", vec![filter, more, accu])
            }
            None => more,
        };
        (init, cond, step, self.accu(at))
    }
}
