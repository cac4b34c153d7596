//! Machine: one run of an expression: its cost so far, its limits, and the regular expressions that it compiled.

use regex::Regex;
use std::collections::BTreeMap;

use steersman_apimachinery::patterns;

use crate::value::{MapKey, Value};

/// Maximum number of steps that have no cost in cel-go, such as copying an item. A run with more steps fails as if it
/// had exceeded its cost limit, so each run ends in bounded time (CEL-1).
const MOST_WORK: u64 = 5_000_000;

/// Maximum size, in bytes, of a regular expression that is compiled during a run.
const MOST_COMPILED: usize = 1 << 20;

/// The reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalFailure {
    /// A failure, with the message of cel-go or Kubernetes.
    Error(String),
    /// The run exceeded its cost limit.
    Limit,
}

impl EvalFailure {
    pub(crate) fn of(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }

    /// Returns the failure of a call with arguments that no overload accepts.
    pub(crate) fn missing(name: &str) -> Self {
        Self::Error(format!("no such overload: {name}"))
    }

    /// Returns the failure of an operator or function with operands that it does not accept.
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
    /// The regular expressions of string literals, which were compiled with the expression.
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

    /// Returns the cost so far, or an eighth of the number of steps that have no cost, if that is higher.
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

    /// Counts steps that have no cost in cel-go, such as copying an item.
    pub(crate) fn work(&mut self, steps: usize) -> Result<(), EvalFailure> {
        self.work = self.work.saturating_add(steps as u64);
        if self.work > MOST_WORK {
            return Err(EvalFailure::Limit);
        }
        Ok(())
    }

    /// Returns a compiled regular expression. Each expression that is no literal in the source is compiled in the run,
    /// which counts as steps.
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

/// Compiles a pattern into at most `limit` bytes.
pub(crate) fn compile(text: &str, limit: usize) -> Result<Regex, String> {
    patterns::compile(text, limit).map_err(|why| format!("error parsing regexp: {why}"))
}

/// Returns whether a value has this field. A value that cannot have fields has none.
pub(crate) fn has(of: &Value<'_>, key: &MapKey) -> Result<bool, EvalFailure> {
    match of {
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(held)) => has(held, key),
        list if list.is_list() => Ok(item(list, key)?.is_some()),
        of => Ok(of.member(key).is_some()),
    }
}

/// Returns a field of a value. Fails if the field does not exist.
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

/// Returns a field of a value as an optional, which has no value if the field does not exist.
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

/// Returns the item of a list at an index, or `None` beyond the end of the list.
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
