//! Machine: expands the macros that the `cel` parser does not expand, such as `optMap` and macros with two variables.

use super::TreeReader;
use crate::syntax::ast::{ExprNode, Fold, NodeKind, TARGET};
use crate::value::Value;

const ACCU: &str = "@result";

/// The name of the accumulator in cel-go's macros with one variable. A loop variable of this name is refused.
const OVERWRITTEN: &str = "__result__";

impl TreeReader<'_> {
    /// Makes the node of a method call, or expands a macro that is written like a method call.
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
            return match args.next() {
                Some(made) => self.opt_map(at, &name, *target, first, made),
                None => self.literal(at, Value::Null),
            };
        }
        if name == "sortBy" {
            return match args.next() {
                Some(key) => self.sort_by(at, *target, first, key),
                None => self.literal(at, Value::Null),
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

    fn literal(&self, at: usize, value: Value<'static>) -> ExprNode {
        self.made(at, NodeKind::Literal(value))
    }

    fn ident(&self, at: usize, name: &str) -> ExprNode {
        self.made(at, NodeKind::Ident(name.to_owned()))
    }

    fn list(&self, at: usize, items: Vec<ExprNode>) -> ExprNode {
        let optional = Vec::new();
        self.made(at, NodeKind::List { items, optional })
    }

    pub(super) fn function(&self, at: usize, name: &str, args: Vec<ExprNode>) -> ExprNode {
        let (name, target) = (name.to_owned(), None);
        self.made(at, NodeKind::Call { name, target, args })
    }

    fn method(&self, at: usize, name: &str, target: ExprNode, args: Vec<ExprNode>) -> ExprNode {
        let (name, target) = (name.to_owned(), Some(Box::new(target)));
        self.made(at, NodeKind::Call { name, target, args })
    }

    /// Expands `o.optMap(v, e)` and `o.optFlatMap(v, e)`: evaluates `e` with the value of `o`, if any, as `v`.
    fn opt_map(
        &self,
        at: usize,
        name: &str,
        target: ExprNode,
        var: String,
        made: ExprNode,
    ) -> ExprNode {
        // The target `o` is bound to a variable, so that it is evaluated only once.
        let held = || self.ident(at, TARGET);
        let test = self.method(at, "hasValue", held(), Vec::new());
        let value = self.method(at, "value", held(), Vec::new());
        let bound = self.bind(at, var, value, made);
        let some = if name == "optMap" {
            self.function(at, "optional.of", vec![bound])
        } else {
            bound
        };
        let none = self.function(at, "optional.none", Vec::new());
        let choice = self.function(at, "_?_:_", vec![test, some, none]);
        self.bind(at, TARGET.to_owned(), target, choice)
    }

    /// Expands `l.sortBy(v, key)`: evaluates `key` with `v` as each item of `l`, and sorts the items by these keys.
    fn sort_by(&self, at: usize, target: ExprNode, var: String, key: ExprNode) -> ExprNode {
        let held = "@__sortBy_input__";
        let item = self.list(at, vec![key]);
        let fold = Fold {
            range: self.ident(at, held),
            var,
            var2: None,
            accu: ACCU.to_owned(),
            init: self.list(at, Vec::new()),
            cond: self.literal(at, Value::Bool(true)),
            step: self.function(at, "_+_", vec![self.ident(at, ACCU), item]),
            result: self.ident(at, ACCU),
        };
        let keys = self.made(at, NodeKind::Fold(Box::new(fold)));
        let input = self.ident(at, held);
        let sorted = self.method(at, "@sortByAssociatedKeys", input, vec![keys]);
        self.bind(at, held.to_owned(), target, sorted)
    }

    /// Returns a node that evaluates `result` with the variable `var` as `value`: a loop without iterations.
    fn bind(&self, at: usize, var: String, value: ExprNode, result: ExprNode) -> ExprNode {
        let fold = Fold {
            range: self.list(at, Vec::new()),
            var: "#unused".to_owned(),
            var2: None,
            cond: self.literal(at, Value::Bool(false)),
            step: self.ident(at, &var),
            accu: var,
            init: value,
            result,
        };
        self.made(at, NodeKind::Fold(Box::new(fold)))
    }

    /// Expands a macro with two loop variables: index and item of a list, or key and value of a map.
    fn two_variables(
        &self,
        at: usize,
        name: &str,
        range: ExprNode,
        (var, var2): (String, String),
        rest: Vec<ExprNode>,
    ) -> ExprNode {
        let mut rest = rest.into_iter();
        let filter = if rest.len() > 1 { rest.next() } else { None };
        let Some(last) = rest.next() else {
            return self.literal(at, Value::Null);
        };
        let accu = || self.ident(at, ACCU);
        let always = || self.literal(at, Value::Bool(true));
        let number = |number| self.literal(at, Value::Int(number));
        let call = |name: &str, args| self.function(at, name, args);
        // Makes a loop's step: `more`, which adds to the accumulator, but only for the items that pass the filter.
        let filtered = |more| match filter {
            Some(filter) => call("_?_:_", vec![filter, more, accu()]),
            None => more,
        };
        let (init, cond, step, result) = match name {
            "all" | "exists" => {
                let all = name == "all";
                let held = if all {
                    accu()
                } else {
                    call("!_", vec![accu()])
                };
                let cond = call("@not_strictly_false", vec![held]);
                let both = if all { "_&&_" } else { "_||_" };
                let init = self.literal(at, Value::Bool(all));
                (init, cond, call(both, vec![accu(), last]), accu())
            }
            "existsOne" | "exists_one" => {
                let more = call("_+_", vec![accu(), number(1)]);
                let step = call("_?_:_", vec![last, more, accu()]);
                let result = call("_==_", vec![accu(), number(1)]);
                (number(0), always(), step, result)
            }
            "transformList" => {
                let more = call("_+_", vec![accu(), self.list(at, vec![last])]);
                let init = self.list(at, Vec::new());
                (init, always(), filtered(more), accu())
            }
            _ => {
                let mut args = vec![accu()];
                args.extend((name == "transformMap").then(|| self.ident(at, &var)));
                args.push(last);
                let init = self.made(at, NodeKind::Map(Vec::new()));
                let more = call("cel.@mapInsert", args);
                (init, always(), filtered(more), accu())
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
}
