//! Machine: evaluates the nodes of an expression and charges their cost.
//!
//! Costs are counted as in cel-go's `interpreter/runtimecost.go`.

pub(crate) mod mutation;

use std::collections::BTreeMap;

use crate::library::{Form, Function, equality, operators};
use crate::run::{EvalFailure, EvalOutcome, Patterns, Run, has, maybe, select};
use crate::syntax::ast::{ExprNode, Fold, MapEntry, MessageField, NodeKind, TARGET};
use crate::value::{MapKey, Value};

/// The parts of an expression that do not depend on its variables, computed when the expression is compiled.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    /// The regular expressions that are string literals, compiled.
    pub(crate) patterns: Patterns,
    /// The values of constant lists, maps and conversions, by the id of the node. A run uses them at no cost.
    pub(crate) values: BTreeMap<usize, EvalOutcome<'static>>,
}

#[derive(Debug)]
pub(crate) struct Evaluator<'a, 'n> {
    /// The function that each call node calls, by the id of the node.
    functions: &'n [Option<&'static Function>],
    constants: &'n Constants,
    /// The values of the policy's variables (`variables.name`), which are evaluated before this expression. A failed
    /// variable fails only the expressions that use that variable.
    composed: &'n [(String, EvalOutcome<'a>)],
    /// The variables in scope, the innermost last. The accumulator of a loop may hold a failure, which a later
    /// iteration can replace, for instance in `exists`.
    scopes: Vec<(&'n str, EvalOutcome<'a>)>,
    /// The variables that cel-go evaluates anew at each use, such as the target of `optMap`, with the cost of one
    /// evaluation. Here a use charges this cost and does not evaluate again.
    repeated: Vec<(&'n str, u64)>,
    run: Run<'n>,
}

impl<'a, 'n> Evaluator<'a, 'n> {
    pub(crate) fn new(
        functions: &'n [Option<&'static Function>],
        constants: &'n Constants,
        variables: &[(&'n str, Value<'a>)],
        composed: &'n [(String, EvalOutcome<'a>)],
        limit: u64,
    ) -> Self {
        Self {
            functions,
            constants,
            composed,
            scopes: variables
                .iter()
                .map(|(name, value)| (*name, Ok(value.clone())))
                .collect(),
            repeated: Vec::new(),
            run: Run::new(&constants.patterns, limit),
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.run.cost()
    }

    fn constant(&self, id: usize) -> Option<EvalOutcome<'a>> {
        self.constants.values.get(&id).cloned()
    }

    fn form(&self, node: &ExprNode) -> Option<Form> {
        self.functions[node.id].map(|function| function.form)
    }

    pub(crate) fn eval(&mut self, node: &'n ExprNode) -> EvalOutcome<'a> {
        if let Some(outcome) = self.constant(node.id) {
            return outcome;
        }
        match &node.kind {
            NodeKind::Literal(literal) => Ok(literal.clone()),
            NodeKind::Ident(name) => {
                let found = self.scopes.iter().rev().find(|(known, _)| known == name);
                let Some((_, value)) = found else {
                    return Ok(Value::Type(name.as_str().into()));
                };
                let value = value.clone();
                let again = self.repeated.iter().rev().find(|(known, _)| known == name);
                self.run.charge(again.map_or(1, |(_, cost)| *cost))?;
                value
            }
            NodeKind::Select {
                operand,
                field,
                test,
            } => {
                if operand.is_ident("variables")
                    && let Some((_, value)) = self.composed.iter().find(|(name, _)| name == field)
                {
                    self.run.charge(2)?;
                    return if *test {
                        Ok(Value::Bool(true))
                    } else {
                        value.clone()
                    };
                }
                let key = MapKey::Text(field.as_str().into());
                if *test {
                    let of = self.eval(operand)?;
                    return has(&of, &key).map(Value::Bool);
                }
                let of = self.qualified(operand)?;
                let found = select(&of, &key);
                self.run.charge(step_cost(&of, &found))?;
                found
            }
            NodeKind::Call { target, args, .. } => self.call(node, target.as_deref(), args),
            NodeKind::List { items, optional } => {
                let mut made = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let value = self.eval(item)?;
                    made.extend(unwrapped(value, optional.contains(&index)));
                }
                self.run.charge(10)?;
                Ok(Value::List(made.into()))
            }
            NodeKind::Map(entries) => self.map(entries),
            NodeKind::Fold(fold) => self.fold(fold),
            NodeKind::Message { name, fields } => self.message(name, fields),
        }
    }

    fn map(&mut self, entries: &'n [MapEntry]) -> EvalOutcome<'a> {
        let mut made = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let key = key
                .key()
                .ok_or_else(|| EvalFailure::of("unsupported key type"))?;
            let value = self.eval(&entry.value)?;
            // If a key occurs twice, its last value wins, as in cel-go.
            made.extend(unwrapped(value, entry.optional).map(|value| (key, value)));
        }
        self.run.charge(30)?;
        Ok(Value::Map(made.into()))
    }

    fn message(&mut self, name: &str, fields: &'n [MessageField]) -> EvalOutcome<'a> {
        let mut made = BTreeMap::new();
        for field in fields {
            let value = self.eval(&field.value)?;
            if let Some(value) = unwrapped(value, field.optional) {
                made.insert(field.name.clone(), value);
            }
        }
        self.run.charge(40)?;
        mutation::made(name, made)
    }

    fn call(
        &mut self,
        node: &'n ExprNode,
        target: Option<&'n ExprNode>,
        args: &'n [ExprNode],
    ) -> EvalOutcome<'a> {
        let Some(function) = self.functions[node.id] else {
            return Err(EvalFailure::overload());
        };
        match (function.form, args) {
            (Form::And, [left, right]) => self.logical(left, right, false),
            (Form::Or, [left, right]) => self.logical(left, right, true),
            (Form::Conditional, [test, yes, no]) => match self.eval(test)? {
                Value::Bool(true) => self.inner(yes),
                Value::Bool(false) => self.inner(no),
                _ => Err(EvalFailure::overload()),
            },
            (Form::Index, [of, index]) => {
                let of = self.qualified(of)?;
                let index = self.inner(index)?;
                let found = operators::index(&of, &index);
                self.run.charge(step_cost(&of, &found))?;
                found
            }
            (Form::OptionalIndex | Form::OptionalField, [of, index]) => {
                let of = self.qualified(of)?;
                let index = self.inner(index)?;
                let key = index.key().ok_or_else(EvalFailure::overload);
                let found = key.and_then(|key| maybe(&of, &key));
                self.run.charge(step_cost(&Value::NONE, &found))?;
                found
            }
            (Form::In, [one, of]) => self.membership(one, of),
            (Form::NotStrictlyFalse, [arg]) => {
                let value = self.eval(arg);
                self.run.charge(1)?;
                match value {
                    Err(EvalFailure::Limit) => Err(EvalFailure::Limit),
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    _ => Ok(Value::Bool(true)),
                }
            }
            (Form::OptionalOr | Form::OptionalOrValue, [other]) => {
                // The argument of `or` and `orValue` is evaluated only if the optional is empty.
                let Some(target) = target else {
                    return Err(EvalFailure::overload());
                };
                match self.eval(target)? {
                    Value::Optional(Some(held)) if function.form == Form::OptionalOrValue => {
                        Ok((*held).clone())
                    }
                    held @ Value::Optional(Some(_)) => Ok(held),
                    Value::Optional(None) => self.eval(other),
                    _ => Err(EvalFailure::overload()),
                }
            }
            _ => {
                let mut values = Vec::with_capacity(args.len() + 1);
                for arg in target.into_iter().chain(args) {
                    values.push(self.eval(arg)?);
                }
                function.call(&mut self.run, &values)
            }
        }
    }

    /// Evaluates `a` of `a.b` or `a[b]`. As in cel-go, the start of a chain such as `a.b[0].c` costs 1. A variable
    /// charges this cost when it is evaluated; for another start, such as a call, it is charged here.
    fn qualified(&mut self, operand: &'n ExprNode) -> EvalOutcome<'a> {
        if !self.is_attribute(operand) {
            self.run.charge(1)?;
        }
        self.eval(operand)
    }

    /// Evaluates a branch of a conditional, or an index. As in cel-go, a chain such as `a.b[0].c` costs 1 less at these
    /// places, because its start is free there.
    fn inner(&mut self, node: &'n ExprNode) -> EvalOutcome<'a> {
        let mut start = node;
        loop {
            start = match &start.kind {
                NodeKind::Select {
                    operand,
                    test: false,
                    ..
                } => operand,
                NodeKind::Call { args, .. } if self.is_step(start) => match args.first() {
                    Some(first) => first,
                    None => break,
                },
                _ => break,
            };
        }
        let free = match &start.kind {
            NodeKind::Ident(name) => !self.scopes.iter().any(|(known, _)| *known == name),
            _ => self.form(start) == Some(Form::Conditional),
        };
        let starts = self.is_attribute(node) && !free && self.constant(node.id).is_none();
        let outcome = self.eval(node);
        if starts {
            self.run.refund(1);
        }
        outcome
    }

    /// Evaluates `in`. As in cel-go, the comparisons cost nothing if the list is constant and has only literals.
    fn membership(&mut self, one: &'n ExprNode, of: &'n ExprNode) -> EvalOutcome<'a> {
        let literals = match self.constant(of.id) {
            Some(Ok(Value::List(items))) if items.iter().all(is_primitive) => Some(items),
            _ => None,
        };
        let Some(items) = literals else {
            let (one, of) = (self.eval(one)?, self.eval(of)?);
            return operators::contained(&mut self.run, &one, &of);
        };
        if items.is_empty() {
            return Ok(Value::Bool(false));
        }
        let one = self.eval(one)?;
        equality::among_them(&mut self.run, &one, &items).map(Value::Bool)
    }

    /// Evaluates `&&` (`decides` is false) or `||` (`decides` is true): a side equal to `decides` is the result, even
    /// if the other side fails.
    fn logical(
        &mut self,
        left: &'n ExprNode,
        right: &'n ExprNode,
        decides: bool,
    ) -> EvalOutcome<'a> {
        let left = match self.eval(left) {
            Err(EvalFailure::Limit) => return Err(EvalFailure::Limit),
            Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
            left => left,
        };
        let right = self.eval(right);
        match (left, right) {
            (_, Err(EvalFailure::Limit)) => Err(EvalFailure::Limit),
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(decides)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            (Err(failure), _) | (Ok(Value::Bool(_)), Err(failure)) => Err(failure),
            _ => Err(EvalFailure::overload()),
        }
    }

    fn fold(&mut self, fold: &'n Fold) -> EvalOutcome<'a> {
        let range = self.eval(&fold.range)?;
        let before = self.run.spent();
        let init = self.eval(&fold.init)?;
        if fold.accu == TARGET {
            return self.repeat(fold, init, before);
        }
        let pairs = fold.var2.is_some();
        let elements = if pairs && range.is_list() {
            let count = i64::try_from(range.size()).unwrap_or(i64::MAX);
            Some((0..count).map(Value::Int).collect())
        } else {
            range.elements()?
        };
        let Some(elements) = elements else {
            let found = range.go_type();
            return Err(EvalFailure::of(if pairs {
                format!("unsupported comprehension range type: {found}")
            } else {
                format!("got '{found}', expected iterable type")
            }));
        };
        self.run.work(elements.len())?;
        let outside = self.scopes.len();
        self.scopes.push((&fold.accu, Ok(init)));
        let outcome = self.iterate(fold, &range, elements);
        let outcome = outcome.and_then(|()| self.eval(&fold.result));
        self.scopes.truncate(outside);
        outcome
    }

    /// Evaluates the result of a loop that has no iterations and only binds a value to [`TARGET`]. cel-go evaluates
    /// that value anew at each use, so each use is charged with the cost of the value.
    fn repeat(&mut self, fold: &'n Fold, value: Value<'a>, before: u64) -> EvalOutcome<'a> {
        let cost = self.run.spent() - before;
        self.run.refund(cost);
        self.scopes.push((&fold.accu, Ok(value)));
        self.repeated.push((&fold.accu, cost));
        let outcome = self.eval(&fold.result);
        self.repeated.pop();
        self.scopes.pop();
        outcome
    }

    fn iterate(
        &mut self,
        fold: &'n Fold,
        range: &Value<'a>,
        elements: Vec<Value<'a>>,
    ) -> Result<(), EvalFailure> {
        let accu = self.scopes.len() - 1;
        for element in elements {
            if let Some(var2) = &fold.var2 {
                let second = match &element {
                    Value::Int(index) if range.is_list() => {
                        range.item(usize::try_from(*index).unwrap_or(usize::MAX))
                    }
                    key => key.key().and_then(|key| range.member(&key)),
                };
                let second = second.unwrap_or(Ok(Value::Null))?;
                self.scopes.push((var2, Ok(second)));
            }
            self.scopes.push((&fold.var, Ok(element)));
            let stepped = self.once(fold, accu);
            self.scopes.truncate(accu + 1);
            if !stepped? {
                break;
            }
        }
        Ok(())
    }

    /// Runs one iteration of a loop. Returns false if the loop ends here, because its condition is no longer true.
    fn once(&mut self, fold: &'n Fold, accu: usize) -> Result<bool, EvalFailure> {
        match self.eval(&fold.cond)? {
            Value::Bool(true) => {}
            _ => return Ok(false),
        }
        match self.step(&fold.step, &fold.accu, accu) {
            Err(EvalFailure::Limit) => return Err(EvalFailure::Limit),
            Err(failure) => self.scopes[accu].1 = Err(failure),
            Ok(()) => {}
        }
        Ok(true)
    }

    /// Computes the next accumulator of a loop. A list or map is first taken out of the accumulator: then nothing else
    /// refers to it, and an addition does not copy it.
    fn step(&mut self, node: &'n ExprNode, name: &str, accu: usize) -> Result<(), EvalFailure> {
        if let NodeKind::Call { args, .. } = &node.kind {
            match (self.form(node), args.as_slice()) {
                (Some(Form::Conditional), [test, yes, no]) => {
                    let branch = match self.eval(test)? {
                        Value::Bool(true) => yes,
                        Value::Bool(false) => no,
                        _ => return Err(EvalFailure::overload()),
                    };
                    if self.is_attribute(branch) {
                        if !branch.is_ident(name) {
                            self.scopes[accu].1 = Ok(self.inner(branch)?);
                        }
                        return Ok(());
                    }
                    return self.step(branch, name, accu);
                }
                (Some(form @ (Form::Add | Form::MapInsert)), [first, rest @ ..])
                    if first.is_ident(name) =>
                {
                    // Reading the accumulator costs 1, and an insertion costs 1 more. `grown` charges the cost of `+`,
                    // by the length of the operands.
                    self.run.charge(if form == Form::Add { 1 } else { 2 })?;
                    let mut values = vec![Value::Null];
                    for one in rest {
                        values.push(self.eval(one)?);
                    }
                    values[0] = std::mem::replace(&mut self.scopes[accu].1, Ok(Value::Null))?;
                    self.scopes[accu].1 = operators::grown(&mut self.run, values);
                    return Ok(());
                }
                _ => {}
            }
        }
        if node.is_ident(name) {
            return self.run.charge(1);
        }
        let value = self.eval(node)?;
        self.scopes[accu].1 = Ok(value);
        Ok(())
    }

    /// Returns whether cel-go treats a node as an attribute: a variable, a selection, an index or a conditional.
    fn is_attribute(&self, node: &ExprNode) -> bool {
        match &node.kind {
            NodeKind::Ident(_) => true,
            NodeKind::Select { test, .. } => !test,
            _ => self.is_step(node) || self.form(node) == Some(Form::Conditional),
        }
    }

    fn is_step(&self, node: &ExprNode) -> bool {
        let form = self.form(node);
        matches!(
            form,
            Some(Form::Index | Form::OptionalIndex | Form::OptionalField)
        )
    }
}

/// Returns the cost of one selection or index: 1, or 0 if it applies to an optional and finds no value.
fn step_cost(of: &Value<'_>, found: &EvalOutcome<'_>) -> u64 {
    let ended = matches!((of, found), (Value::Optional(_), Ok(Value::Optional(None))));
    u64::from(!ended)
}

fn is_primitive(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Text(_)
    )
}

/// Returns the value of an item of a list or map literal; `None` if the item is written `?item` and is empty.
fn unwrapped(value: Value<'_>, optional: bool) -> Option<Value<'_>> {
    match value {
        Value::Optional(held) if optional => held.map(|held| (*held).clone()),
        value => Some(value),
    }
}
