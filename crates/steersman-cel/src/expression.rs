//! Machine: an expression of admission with its text: compiled when it is written, run for every
//! request it is about, within what is left of a budget.

use serde_json::Value as Json;

use super::admission::Environment;
use super::program::{CALL_LIMIT, Program};
use super::run::{Failure, Outcome};
use super::types::Type;
use super::value::Value;

/// What all conditions of a webhook or a policy may cost together.
const CONDITIONS_BUDGET: u64 = 2_500_000;

/// How deep a value may nest that an expression made: as deep as an expression itself. Without a
/// bound variables that hold each other could stack what no thread's stack can walk (SRV-3).
const MOST_NESTED: usize = 250;

/// An expression with its text; what is wrong with it where it does not compile.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Result<Program, String>,
}

/// The variables that a policy itself makes, and what they came to.
pub type Made<'a> = Vec<(String, Outcome<'a>)>;

impl Expression {
    /// Compiles an expression whose value has one of the types, where any are named.
    pub fn of(environment: &Environment, text: &Json, results: &[Type]) -> Self {
        let text = text.as_str().unwrap_or_default().trim().to_owned();
        let program = environment.compile(&text, results);
        Self { text, program }
    }

    /// Those of a list of match conditions.
    pub fn conditions(environment: &Environment, conditions: &Json) -> Vec<Self> {
        let all = conditions.as_array().into_iter().flatten();
        all.map(|one| Self::of(environment, &one["expression"], &[Type::Bool]))
            .collect()
    }

    /// Returns the source of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type of its value; any where it does not compile.
    pub fn result(&self) -> Type {
        let result = self.program.as_ref().map(Program::result);
        result.cloned().unwrap_or(Type::Dyn)
    }

    /// Its value, for which it takes from what is `left`.
    ///
    /// # Errors
    /// Why it has none.
    pub fn run<'a>(
        &self,
        values: &[(&str, Value<'a>)],
        made: &[(String, Outcome<'a>)],
        left: &mut u64,
    ) -> Result<Value<'a>, String> {
        let program = self
            .program
            .as_ref()
            .map_err(|why| format!("compilation error: {why}"))?;
        let (outcome, cost) = program.run_composed(values, made, CALL_LIMIT);
        if cost > *left {
            *left = 0;
            return Err("validation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        *left -= cost;
        let outcome = outcome.and_then(|value| {
            if value.is_below(MOST_NESTED) {
                Ok(value)
            } else {
                Err(Failure::of("the value is nested too deep"))
            }
        });
        outcome.map_err(|failure| {
            let why = match failure {
                Failure::Error(why) => why,
                Failure::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
            };
            format!("expression '{}' resulted in error: {why}", self.text)
        })
    }

    /// The value as that of a variable of the policy's own.
    pub fn run_variable<'a>(
        &self,
        name: &str,
        values: &[(&str, Value<'a>)],
        made: &mut Made<'a>,
        left: &mut u64,
    ) {
        let outcome = self.run(values, made, left).map_err(|why| {
            let why = why
                .split_once("resulted in error: ")
                .map_or(&*why, |(_, why)| why);
            let told = format!("composited variable \"{name}\" fails to evaluate: {why}");
            Failure::Error(told)
        });
        made.push((name.to_owned(), outcome));
    }
}

/// Whether all conditions hold. One that is false decides, whatever became of the others.
///
/// # Errors
/// What went wrong with the others.
pub fn all_hold(conditions: &[Expression], values: &[(&str, Value<'_>)]) -> Result<bool, String> {
    let mut left = CONDITIONS_BUDGET;
    let mut wrong = Vec::new();
    for condition in conditions {
        match condition.run(values, &[], &mut left) {
            Ok(Value::Bool(false)) => return Ok(false),
            Ok(_) => {}
            Err(why) => wrong.push(why),
        }
    }
    match wrong.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}
