//! Machine: evaluates the nodes of an expression.
//!
//! Costs are counted as in cel-go's `interpreter/runtimecost.go`.

pub(crate) mod run;
mod equality;
mod operators;
mod string_functions;
mod list_functions;
mod conversions;
mod authorizer_functions;
pub(crate) mod library;
pub(crate) mod mutation;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::syntax::ast::{Entry, Fold, Kind, Literal, MessageField, Node, TARGET};
use crate::value::{Key, Text, Value};
use run::{Failure, Outcome, Run, has, maybe, select};

impl<'a, 'n> Run<'a, 'n> {
    /// Evaluates a node.
    ///
    /// # Errors
    /// Fails if the node has no value.
    pub(crate) fn eval(&mut self, node: &'n Node) -> Outcome<'a> {
        if let Some(outcome) = self.constant(node.id) {
            return outcome;
        }
        match &node.kind {
            Kind::Literal(literal) => Ok(constant(literal)),
            Kind::Ident(name) => {
                let found = self.scopes.iter().rev().find(|(known, _)| known == name);
                let Some((_, value)) = found else {
                    return Ok(Value::Type(name.as_str().into()));
                };
                let value = value.clone();
                let again = self.repeated.iter().rev().find(|(known, _)| known == name);
                self.charge(again.map_or(1, |(_, cost)| *cost))?;
                value
            }
            Kind::Select {
                operand,
                field,
                test,
            } => {
                if operand.is_ident("variables")
                    && let Some((_, value)) = self.composed.iter().find(|(name, _)| name == field)
                {
                    self.charge(2)?;
                    return if *test {
                        Ok(Value::Bool(true))
                    } else {
                        value.clone()
                    };
                }
                let key = Key::Text(field.as_str().into());
                if *test {
                    let of = self.eval(operand)?;
                    return has(&of, &key).map(Value::Bool);
                }
                let of = self.qualified(operand)?;
                let found = select(&of, &key);
                self.charge(step_cost(&of, &found))?;
                found
            }
            Kind::Call { name, target, args } => self.call(name, target.as_deref(), args),
            Kind::List { items, optional } => {
                let mut made = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let value = self.eval(item)?;
                    match value {
                        Value::Optional(held) if optional.contains(&index) => {
                            made.extend(held.map(|held| (*held).clone()));
                        }
                        value => made.push(value),
                    }
                }
                self.charge(10)?;
                Ok(Value::List(made.into()))
            }
            Kind::Map(entries) => self.map(entries),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Message { name, fields } => self.message(name, fields),
        }
    }

    fn map(&mut self, entries: &'n [Entry]) -> Outcome<'a> {
        let mut made = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let key = key
                .key()
                .ok_or_else(|| Failure::of("unsupported key type"))?;
            let value = self.eval(&entry.value)?;
            let Some(value) = unwrapped(value, entry.optional) else {
                continue;
            };
            // Upstream keeps the last value of a repeated key.
            made.insert(key, value);
        }
        self.charge(30)?;
        Ok(Value::Map(made.into()))
    }

    fn message(&mut self, name: &str, fields: &'n [MessageField]) -> Outcome<'a> {
        let mut made = BTreeMap::new();
        for field in fields {
            let value = self.eval(&field.value)?;
            if let Some(value) = unwrapped(value, field.optional) {
                made.insert(field.name.clone(), value);
            }
        }
        self.charge(40)?;
        mutation::made(name, made)
    }

    fn call(&mut self, name: &'n str, target: Option<&'n Node>, args: &'n [Node]) -> Outcome<'a> {
        match (name, args) {
            ("_&&_", [left, right]) => self.logical(left, right, false),
            ("_||_", [left, right]) => self.logical(left, right, true),
            ("_?_:_", [test, yes, no]) => match self.eval(test)? {
                Value::Bool(true) => self.inner(yes),
                Value::Bool(false) => self.inner(no),
                _ => Err(Failure::overload()),
            },
            ("_[_]" | "_[?_]", [of, index]) => {
                let of = self.qualified(of)?;
                let index = self.inner(index)?;
                let found = operators::indexed(name, &of, &index);
                let optional = name == "_[?_]";
                let of = if optional { &Value::NONE } else { &of };
                self.charge(step_cost(of, &found))?;
                found
            }
            ("@in", [one, of]) => self.membership(one, of),
            ("@not_strictly_false", [arg]) => {
                let value = self.eval(arg);
                self.charge(1)?;
                match value {
                    Err(Failure::Limit) => Err(Failure::Limit),
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    _ => Ok(Value::Bool(true)),
                }
            }
            ("_?._", [of, field]) => {
                let of = self.qualified(of)?;
                let Kind::Literal(Literal::Text(field)) = &field.kind else {
                    return Err(Failure::overload());
                };
                let found = maybe(&of, &Key::Text(Arc::clone(field)));
                self.charge(step_cost(&Value::NONE, &found))?;
                found
            }
            ("orValue" | "or", [other]) => {
                // The alternative is evaluated only if the optional has no value.
                let Some(target) = target else {
                    return Err(Failure::overload());
                };
                match self.eval(target)? {
                    Value::Optional(Some(held)) if name == "orValue" => Ok((*held).clone()),
                    held @ Value::Optional(Some(_)) => Ok(held),
                    Value::Optional(None) => self.eval(other),
                    _ => Err(Failure::overload()),
                }
            }
            _ => {
                let mut values = Vec::with_capacity(args.len() + 1);
                if let Some(target) = target {
                    values.push(self.eval(target)?);
                }
                for arg in args {
                    values.push(self.eval(arg)?);
                }
                if name == "matches" && target.is_none() {
                    return library::matches(self, &values);
                }
                if let Some(outcome) = operators::apply(self, name, &values) {
                    return outcome;
                }
                library::apply(self, name, &values)
            }
        }
    }

    /// Evaluates the operand of a selection or an index. Upstream charges a chain of them once, at
    /// its variable, and one that does not start at a variable here.
    fn qualified(&mut self, operand: &'n Node) -> Outcome<'a> {
        if !is_attribute(operand) {
            self.charge(1)?;
        }
        self.eval(operand)
    }

    /// Evaluates a branch of a conditional or an index. Upstream does not charge the start of a chain
    /// of selections there.
    fn inner(&mut self, node: &'n Node) -> Outcome<'a> {
        let mut start = node;
        loop {
            start = match &start.kind {
                Kind::Select {
                    operand,
                    test: false,
                    ..
                } => operand,
                Kind::Call { name, args, .. } if is_step(name) => match args.first() {
                    Some(first) => first,
                    None => break,
                },
                _ => break,
            };
        }
        let free = match &start.kind {
            Kind::Ident(name) => !self.scopes.iter().any(|(known, _)| *known == name),
            Kind::Call { name, .. } => name == "_?_:_",
            _ => false,
        };
        let starts = is_attribute(node) && !free && self.constant(node.id).is_none();
        let outcome = self.eval(node);
        if starts {
            self.refund(1);
        }
        outcome
    }

    /// Evaluates `in`. Upstream looks a value up in a constant list of literals at no cost.
    fn membership(&mut self, one: &'n Node, of: &'n Node) -> Outcome<'a> {
        let literals = match self.constant(of.id) {
            Some(Ok(Value::List(items))) if items.iter().all(is_primitive) => Some(items),
            _ => None,
        };
        let Some(items) = literals else {
            let values = [self.eval(one)?, self.eval(of)?];
            return operators::apply(self, "@in", &values)
                .unwrap_or_else(|| Err(Failure::overload()));
        };
        if items.is_empty() {
            return Ok(Value::Bool(false));
        }
        let one = self.eval(one)?;
        equality::among_them(self, &one, &items).map(Value::Bool)
    }

    /// Evaluates `&&` and `||`. A side with the value `decides` determines the result even if the
    /// other side fails.
    fn logical(&mut self, left: &'n Node, right: &'n Node, decides: bool) -> Outcome<'a> {
        let left = match self.eval(left) {
            Err(Failure::Limit) => return Err(Failure::Limit),
            Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
            left => left,
        };
        let right = self.eval(right);
        match (left, right) {
            (_, Err(Failure::Limit)) => Err(Failure::Limit),
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(decides)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            (Err(failure), _) | (Ok(Value::Bool(_)), Err(failure)) => Err(failure),
            _ => Err(Failure::overload()),
        }
    }

    fn fold(&mut self, fold: &'n Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let before = self.spent();
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
            return Err(Failure::of(if pairs {
                format!("unsupported comprehension range type: {found}")
            } else {
                format!("got '{found}', expected iterable type")
            }));
        };
        self.work(elements.len())?;
        let outside = self.scopes.len();
        self.scopes.push((&fold.accu, Ok(init)));
        let outcome = self.iterate(fold, &range, elements);
        let outcome = outcome.and_then(|()| self.eval(&fold.result));
        self.scopes.truncate(outside);
        outcome
    }

    /// Evaluates the result of a loop that binds a value to [`TARGET`]. Upstream evaluates the value
    /// again at each use, so each use has the cost of the value.
    fn repeat(&mut self, fold: &'n Fold, value: Value<'a>, before: u64) -> Outcome<'a> {
        let cost = self.spent() - before;
        self.refund(cost);
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
    ) -> Result<(), Failure> {
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

    /// Runs one iteration of a loop. Returns whether another iteration follows.
    fn once(&mut self, fold: &'n Fold, accu: usize) -> Result<bool, Failure> {
        match self.eval(&fold.cond)? {
            Value::Bool(true) => {}
            _ => return Ok(false),
        }
        match self.step(&fold.step, &fold.accu, accu) {
            Err(Failure::Limit) => return Err(Failure::Limit),
            Err(failure) => self.scopes[accu].1 = Err(failure),
            Ok(()) => {}
        }
        Ok(true)
    }

    /// Evaluates the next value of the accumulator of a loop. A list or map is moved out of its
    /// variable during the step, so that it grows in place.
    fn step(&mut self, node: &'n Node, name: &str, accu: usize) -> Result<(), Failure> {
        if let Kind::Call {
            name: function,
            target: None,
            args,
        } = &node.kind
        {
            match (function.as_str(), args.as_slice()) {
                ("_?_:_", [test, yes, no]) => {
                    let branch = match self.eval(test)? {
                        Value::Bool(true) => yes,
                        Value::Bool(false) => no,
                        _ => return Err(Failure::overload()),
                    };
                    if is_attribute(branch) {
                        if !branch.is_ident(name) {
                            self.scopes[accu].1 = Ok(self.inner(branch)?);
                        }
                        return Ok(());
                    }
                    return self.step(branch, name, accu);
                }
                ("_+_" | "cel.@mapInsert", [first, rest @ ..]) if first.is_ident(name) => {
                    // The addition charges itself.
                    self.charge(if function == "_+_" { 1 } else { 2 })?;
                    let mut values = vec![Value::Null];
                    for one in rest {
                        values.push(self.eval(one)?);
                    }
                    values[0] = std::mem::replace(&mut self.scopes[accu].1, Ok(Value::Null))?;
                    self.scopes[accu].1 = operators::grown(self, values);
                    return Ok(());
                }
                _ => {}
            }
        }
        if node.is_ident(name) {
            return self.charge(1);
        }
        let value = self.eval(node)?;
        self.scopes[accu].1 = Ok(value);
        Ok(())
    }
}

/// Returns the cost of a selection or index. An optional without a value ends a chain at no cost.
fn step_cost(of: &Value<'_>, found: &Outcome<'_>) -> u64 {
    let ended = matches!((of, found), (Value::Optional(_), Ok(Value::Optional(None))));
    u64::from(!ended)
}

/// Returns whether upstream resolves a node as a chain of selections and indexes.
fn is_attribute(node: &Node) -> bool {
    match &node.kind {
        Kind::Ident(_) => true,
        Kind::Select { test, .. } => !test,
        Kind::Call { name, .. } => is_step(name) || name == "_?_:_",
        _ => false,
    }
}

/// Returns whether an operator selects a part of its first argument.
fn is_step(operator: &str) -> bool {
    matches!(operator, "_[_]" | "_[?_]" | "_?._")
}

fn is_primitive(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Text(_)
    )
}

/// Returns the value of an optional entry, or `None` if the optional has no value.
fn unwrapped(value: Value<'_>, optional: bool) -> Option<Value<'_>> {
    match value {
        Value::Optional(held) if optional => held.map(|held| (*held).clone()),
        value => Some(value),
    }
}

fn constant<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Text(text) => Value::Text(Text::Made(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}
