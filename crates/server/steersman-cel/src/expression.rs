//! Machine: an expression of an admission policy or webhook. It is compiled when the policy or webhook is written; each
//! run subtracts its cost from a budget.

use serde_json::Value as Json;

use crate::admission::Environment;
use crate::program::{CALL_LIMIT, Program};
use crate::run::{EvalFailure, EvalOutcome};
use crate::types::Type;
use crate::value::Value;

/// The maximum cost of all match conditions of one webhook or policy together, as in Kubernetes.
const CONDITIONS_BUDGET: u64 = 2_500_000;

/// The maximum depth of a value that an expression creates; expressions have the same limit. The variables of a policy
/// can contain each other, so without this limit a deep value could overflow the stack (SRV-3).
const MOST_NESTED: usize = 250;

/// An admission expression: its source, and the compiled program or the compile errors.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Result<Program, String>,
}

/// The values, or the failures, of the variables that a policy declares, with their names, in the order of evaluation.
pub type VariableValues<'a> = Vec<(String, EvalOutcome<'a>)>;

impl Expression {
    /// Compiles an expression. If `results` is not empty, its value must have one of these types. Each run fails with
    /// the compile errors, if any.
    pub fn of(environment: &Environment, text: &Json, results: &[Type]) -> Self {
        let text = text.as_str().unwrap_or_default().trim().to_owned();
        let program = environment.compile(&text, results);
        Self { text, program }
    }

    /// Compiles the expressions of `matchConditions`, which must be boolean.
    pub fn conditions(environment: &Environment, conditions: &Json) -> Vec<Self> {
        let all = conditions.as_array().into_iter().flatten();
        all.map(|one| Self::of(environment, &one["expression"], &[Type::Bool]))
            .collect()
    }

    /// Returns the source of the expression, without white space around it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the type of the expression's value; `dyn` if the expression does not compile.
    pub fn result(&self) -> Type {
        let result = self.program.as_ref().map(Program::result);
        result.cloned().unwrap_or(Type::Dyn)
    }

    /// Evaluates the expression with the variables `values` and with `made`, the evaluated variables of the policy.
    /// Subtracts the cost from the budget `left`.
    ///
    /// # Errors
    /// Fails with a message if the expression does not compile or fails, or if the budget is spent.
    pub fn run<'a>(
        &self,
        values: &[(&str, Value<'a>)],
        made: &[(String, EvalOutcome<'a>)],
        left: &mut u64,
    ) -> Result<Value<'a>, String> {
        let program = self.program.as_ref();
        let program = program.map_err(|why| format!("compilation error: {why}"))?;
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
                Err(EvalFailure::of("the value is nested too deep"))
            }
        });
        outcome.map_err(|failure| {
            let why = match failure {
                EvalFailure::Error(why) => why,
                EvalFailure::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
            };
            format!("expression '{}' resulted in error: {why}", self.text)
        })
    }

    /// Evaluates the expression of the policy's variable `name`, and adds its value or its failure to `made`.
    pub fn run_variable<'a>(
        &self,
        name: &str,
        values: &[(&str, Value<'a>)],
        made: &mut VariableValues<'a>,
        left: &mut u64,
    ) {
        let outcome = self.run(values, made, left).map_err(|why| {
            let why = why
                .split_once("resulted in error: ")
                .map_or(&*why, |(_, why)| why);
            let message = format!("composited variable \"{name}\" fails to evaluate: {why}");
            EvalFailure::Error(message)
        });
        made.push((name.to_owned(), outcome));
    }
}

/// Returns whether all match conditions are true. One false condition decides, even if others fail to evaluate.
///
/// # Errors
/// Fails with the errors of the conditions that could not be evaluated, if none is false.
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
