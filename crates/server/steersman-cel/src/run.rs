//! Machine: one run of an expression: its cost so far, its limits, and the regular expressions compiled in the run.

use regex::Regex;
use std::collections::BTreeMap;

use steersman_apimachinery::patterns;

use crate::value::{MapKey, Value};

/// Maximum number of steps that cel-go does not charge, such as copying an item. A run with more steps fails like a run
/// that exceeds its cost limit, so each run ends in bounded time (CEL-1).
const MOST_WORK: u64 = 5_000_000;

/// Maximum memory, in bytes, of one regular expression that a run compiles: its pattern may come from a request.
const MOST_COMPILED: usize = 1 << 20;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalFailure {
    /// The evaluation failed; the message is that of cel-go or Kubernetes.
    Error(String),
    /// The run exceeded its cost limit or its limit of steps.
    Limit,
}

impl EvalFailure {
    pub(crate) fn of(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }

    /// Returns the failure that the function `name` has no overload for its arguments.
    pub(crate) fn missing(name: &str) -> Self {
        Self::Error(format!("no such overload: {name}"))
    }

    /// Returns the failure that an operator or function does not accept its operands; the message names no function.
    pub(crate) fn overload() -> Self {
        Self::of("no such overload")
    }
}

impl From<String> for EvalFailure {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

pub(crate) type Patterns = BTreeMap<String, Regex>;

pub(crate) type EvalOutcome<'a> = Result<Value<'a>, EvalFailure>;

#[derive(Debug)]
pub(crate) struct Run<'n> {
    /// The regular expressions that are literals in the source, compiled in advance.
    literals: &'n Patterns,
    met: Patterns,
    cost: u64,
    limit: u64,
    work: u64,
}

impl<'n> Run<'n> {
    pub(crate) fn new(literals: &'n Patterns, limit: u64) -> Self {
        Self {
            literals,
            met: Patterns::new(),
            cost: 0,
            limit,
            work: 0,
        }
    }

    /// Returns the cost so far, or an eighth of the counted steps if that is more, so that a budget also limits steps.
    pub(crate) fn cost(&self) -> u64 {
        self.cost.max(self.work / 8)
    }

    pub(crate) fn spent(&self) -> u64 {
        self.cost
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalFailure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(EvalFailure::Limit);
        }
        Ok(())
    }

    pub(crate) fn refund(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    /// Counts steps that cel-go does not charge, such as copying an item. Fails above the limit of steps.
    pub(crate) fn work(&mut self, steps: usize) -> Result<(), EvalFailure> {
        self.work = self.work.saturating_add(steps as u64);
        if self.work > MOST_WORK {
            return Err(EvalFailure::Limit);
        }
        Ok(())
    }

    /// Returns a compiled regular expression. A pattern that is not a literal is compiled at its first use in the run,
    /// which counts as 10,000 steps or more.
    pub(crate) fn pattern(&mut self, text: &str) -> Result<Regex, EvalFailure> {
        if let Some(known) = self.literals.get(text).or_else(|| self.met.get(text)) {
            return Ok(known.clone());
        }
        self.work(10_000 + text.len() * 100)?;
        let made = compile(text, MOST_COMPILED).map_err(EvalFailure::Error)?;
        self.met.insert(text.to_owned(), made.clone());
        Ok(made)
    }
}

/// Compiles a regular expression, which may take at most `limit` bytes.
pub(crate) fn compile(text: &str, limit: usize) -> Result<Regex, String> {
    patterns::compile(text, limit).map_err(|why| format!("error parsing regexp: {why}"))
}

/// Evaluates `has(of.key)`: whether a value has this field. Values without fields, such as numbers, give false.
pub(crate) fn has(of: &Value<'_>, key: &MapKey) -> Result<bool, EvalFailure> {
    match of {
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(held)) => has(held, key),
        list if list.is_list() => Ok(item(list, key)?.is_some()),
        of => Ok(of.member(key).is_some()),
    }
}

/// Evaluates `of.key` and `of[key]`. Fails if the field or the item does not exist.
pub(crate) fn select<'a>(of: &Value<'a>, key: &MapKey) -> EvalOutcome<'a> {
    match of {
        Value::Optional(_) => maybe(of, key),
        list if list.is_list() => {
            item(list, key)?.ok_or_else(|| EvalFailure::of(format!("index out of bounds: {key}")))
        }
        of => match of.member(key) {
            Some(found) => Ok(found?),
            None => Err(EvalFailure::of(format!("no such key: {key}"))),
        },
    }
}

/// Evaluates `of.?key` and `of[?key]`: an optional, which is empty if the field or the item does not exist.
pub(crate) fn maybe<'a>(of: &Value<'a>, key: &MapKey) -> EvalOutcome<'a> {
    match of {
        Value::Optional(None) => Ok(Value::NONE),
        Value::Optional(Some(held)) => maybe(held, key),
        list if list.is_list() => Ok(item(list, key)?.map_or(Value::NONE, Value::some)),
        of => {
            let found = of.member(key).transpose()?;
            Ok(match found {
                None => Value::NONE,
                Some(held @ Value::Optional(_)) => held,
                Some(found) => Value::some(found),
            })
        }
    }
}

/// Returns the item of a list at an index; `None` if the index is outside the list.
fn item<'a>(list: &Value<'a>, key: &MapKey) -> Result<Option<Value<'a>>, EvalFailure> {
    let unsupported =
        |kind: &str| EvalFailure::of(format!("unsupported index type '{kind}' in list"));
    let index = match key {
        MapKey::Int(index) => usize::try_from(*index).ok(),
        MapKey::Uint(_) => None,
        MapKey::Bool(_) => return Err(unsupported("bool")),
        MapKey::Text(_) => return Err(unsupported("string")),
    };
    let found = index.and_then(|index| list.item(index));
    Ok(found.transpose()?)
}
