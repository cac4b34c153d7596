//! Machine: an expression that is compiled once and runs many times.

mod constants;
mod literals;

use std::sync::Arc;

use crate::check::{self, Checked};
use crate::cost;
use crate::eval::{Constants, Evaluator};
use crate::run::{EvalFailure, EvalOutcome};
use crate::syntax::ast::ExprNode;
use crate::syntax::parse;
use crate::types::{Decl, Type};
use crate::value::Value;

/// The maximum cost of one run of an expression; a run of this cost takes about a tenth of a second.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;

/// A compiled expression: the syntax tree with its types, and the values of its constant parts.
#[derive(Debug)]
pub struct Program {
    root: ExprNode,
    checked: Checked,
    constants: Constants,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
pub enum CompileError {
    /// Errors of syntax, types or literals, in the layout of cel-go: with the source line and a mark.
    #[display("compilation failed: {_0}")]
    Invalid(String),
    /// A constant part of the expression fails, such as `int('x')`. cel-go evaluates such parts before the first run.
    #[display("program instantiation failed: {_0}")]
    Constant(String),
}

impl Program {
    /// Compiles an expression. `variables` has the names of the variables that it may use, with their types.
    ///
    /// # Errors
    /// Fails with all errors of the expression, as cel-go prints them.
    pub fn compile(source: &str, variables: &[(&str, Type)]) -> Result<Self, CompileError> {
        let mut parsed = parse::parse(source).map_err(CompileError::Invalid)?;
        let refused = |mistakes: Vec<parse::ParseError>| {
            let described = parse::describe(source, &mistakes);
            CompileError::Invalid(described)
        };
        let checked = check::check(&mut parsed.root, parsed.parts, variables).map_err(refused)?;
        let mistakes = literals::check(&parsed.root, &checked);
        if !mistakes.is_empty() {
            return Err(refused(mistakes));
        }
        Ok(Self {
            constants: constants::fold(&parsed.root, &checked).map_err(CompileError::Constant)?,
            root: parsed.root,
            checked,
        })
    }

    /// Returns the type of the expression's value, as the type checker inferred it.
    pub fn result(&self) -> &Type {
        &self.checked.types[self.root.id]
    }

    /// Returns whether the expression uses the variable with this name.
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.used.iter().any(|used| used == variable)
    }

    /// Returns an estimate of the highest cost that one run can have; `root` declares the variables.
    pub fn worst_cost(&self, root: &Arc<Decl>) -> u64 {
        cost::estimate(&self.root, &self.checked, root)
    }

    /// Runs the expression with these variables, and returns its outcome and cost; a cost of more than `limit` fails.
    pub fn run<'a>(
        &self,
        variables: &[(&str, Value<'a>)],
        limit: u64,
    ) -> (Result<Value<'a>, EvalFailure>, u64) {
        self.run_composed(variables, &[], limit)
    }

    /// Runs the expression with these variables and with `composed`, the values or failures of the policy's variables
    /// (`variables.name`). Returns the outcome and the cost; a run that costs more than `limit` fails.
    pub fn run_composed<'a>(
        &self,
        variables: &[(&str, Value<'a>)],
        composed: &[(String, EvalOutcome<'a>)],
        limit: u64,
    ) -> (Result<Value<'a>, EvalFailure>, u64) {
        let functions = &self.checked.functions;
        let mut run = Evaluator::new(functions, &self.constants, variables, composed, limit);
        let outcome = run.eval(&self.root);
        (outcome, run.cost())
    }
}

#[cfg(test)]
mod tests;
