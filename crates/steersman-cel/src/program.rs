//! Machine: an expression that is compiled once and runs many times.

use std::sync::Arc;

use steersman_text::go;

use crate::check::{self, Checked};
use crate::cost;
use crate::eval::run::{self, Failure, Outcome, Patterns, Run};
use crate::syntax::ast::{Kind, Literal, Node};
use crate::syntax::parse::{self, ParseError};
use crate::types::{Decl, Type};
use crate::value::Value;
use crate::value::times;

/// The cost limit of one run, which takes about a tenth of a second.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: Node,
    checked: Checked,
    patterns: Patterns,
}

impl Program {
    /// Compiles an expression. `variables` declares the types of its variables.
    ///
    /// # Errors
    /// Fails with the errors as upstream's compiler prints them.
    pub fn compile(source: &str, variables: &[(&str, Type)]) -> Result<Self, String> {
        let mut parsed = parse::parse(source)?;
        let checked = check::check(&mut parsed.root, parsed.parts, variables)
            .map_err(|mistakes| parse::describe(source, &mistakes))?;
        let mut constants = Constants::default();
        constants.look(&parsed.root);
        if !constants.mistakes.is_empty() {
            return Err(parse::describe(source, &constants.mistakes));
        }
        Ok(Self {
            root: parsed.root,
            checked,
            patterns: constants.patterns,
        })
    }

    /// Returns the type of the value.
    pub fn result(&self) -> &Type {
        &self.checked.types[self.root.id]
    }

    /// Returns whether the expression uses a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.used.iter().any(|used| used == variable)
    }

    /// Returns the worst-case cost with the variables that `root` declares.
    pub fn worst_cost(&self, root: &Arc<Decl>) -> u64 {
        cost::estimate(&self.root, &self.checked, root)
    }

    /// Runs the expression. Returns its value and its cost.
    pub fn run<'a>(
        &self,
        variables: &[(&str, Value<'a>)],
        limit: u64,
    ) -> (Result<Value<'a>, Failure>, u64) {
        self.run_composed(variables, &[], limit)
    }

    /// Runs the expression with the values of a policy's variables.
    pub fn run_composed<'a>(
        &self,
        variables: &[(&str, Value<'a>)],
        composed: &[(String, Outcome<'a>)],
        limit: u64,
    ) -> (Result<Value<'a>, Failure>, u64) {
        let mut run = Run::new(variables, &self.patterns, limit);
        run.composed = composed;
        let outcome = run.eval(&self.root);
        (outcome, run.cost())
    }
}

/// Checks constants at compile time: patterns, and strings that are converted to times or
/// durations.
#[derive(Default)]
struct Constants {
    patterns: Patterns,
    mistakes: Vec<ParseError>,
}

impl Constants {
    fn look(&mut self, node: &Node) {
        match &node.kind {
            Kind::Select { operand, .. } => self.look(operand),
            Kind::Call { name, target, args } => {
                for part in target.iter().map(|target| &**target).chain(args) {
                    self.look(part);
                }
                if let Some((at, text)) = args.last().and_then(text_of) {
                    self.call(name, at, text);
                }
            }
            Kind::List { items, .. } => items.iter().for_each(|item| self.look(item)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.look(&entry.key);
                    self.look(&entry.value);
                }
            }
            Kind::Fold(fold) => {
                for part in [
                    &fold.range,
                    &fold.init,
                    &fold.cond,
                    &fold.step,
                    &fold.result,
                ] {
                    self.look(part);
                }
            }
            Kind::Message { fields, .. } => {
                fields.iter().for_each(|field| self.look(&field.value));
            }
            Kind::Literal(_) | Kind::Ident(_) => {}
        }
    }

    fn call(&mut self, name: &str, at: usize, text: &str) {
        let fine = match name {
            "matches" | "find" | "findAll" => match run::compile(text) {
                Ok(pattern) => {
                    self.patterns.insert(text.to_owned(), pattern);
                    true
                }
                Err(_) => name != "matches",
            },
            "duration" => go::parse_duration(text).is_ok(),
            "timestamp" => times::rfc3339(text).is_ok(),
            _ => true,
        };
        if !fine {
            self.mistakes.push((at, format!("invalid {name} argument")));
        }
    }
}

fn text_of(node: &Node) -> Option<(usize, &str)> {
    match &node.kind {
        Kind::Literal(Literal::Text(text)) => Some((node.at, text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
