//! Machine: a rule over all objects of a cluster, in CEL.

use serde_json::Value as Json;
use std::sync::Arc;
use steersman_cel::{EvalFailure, Program, Type, Value};

/// The maximum cost of one evaluation of a rule: some seconds of computation. Objects of a scenario are few.
const MOST_COST: u64 = 10_000_000;

/// A named rule over the variable `objects`, the list of all stored objects.
#[derive(Debug)]
pub struct Rule {
    name: String,
    text: String,
    program: Program,
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Fails with the errors of the expression, and if its value is not a boolean.
    pub fn compile(name: &str, text: &str) -> Result<Self, String> {
        let objects = Type::List(Arc::new(Type::Dyn));
        let program =
            Program::compile(text, &[("objects", objects)]).map_err(|error| error.to_string())?;
        match program.result() {
            Type::Bool | Type::Dyn => Ok(Self {
                name: name.to_owned(),
                text: text.trim().to_owned(),
                program,
            }),
            other => Err(format!(
                "the value of the rule must be a bool, and is a {other:?}"
            )),
        }
    }

    /// Returns the name of the rule.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates the rule. `objects` is a JSON list. Returns why the rule does not hold; `None` if it holds.
    #[must_use]
    pub fn broken_by(&self, objects: &Json) -> Option<String> {
        let value = match Value::of(objects, None) {
            Ok(value) => value,
            Err(why) => return Some(why),
        };
        let (outcome, _) = self.program.run(&[("objects", value)], MOST_COST);
        match outcome {
            Ok(Value::Bool(true)) => None,
            Ok(Value::Bool(false)) => Some("its value is false".to_owned()),
            Ok(other) => Some(format!("its value is no bool but a {}", other.type_name())),
            Err(EvalFailure::Error(why)) => Some(format!("it fails: {why}")),
            Err(EvalFailure::Limit) => Some("it costs too much to evaluate".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_holds_or_says_why_not() {
        let text = "objects.filter(o, o.kind == 'ConfigMap').all(o, has(o.data))";
        let rule = Rule::compile("maps-have-data", text).unwrap();
        assert_eq!(rule.broken_by(&json!([{"kind": "Pod"}])), None);
        assert_eq!(
            rule.broken_by(&json!([{"kind": "ConfigMap", "data": {}}])),
            None
        );
        let broken = rule.broken_by(&json!([{"kind": "ConfigMap"}]));
        assert_eq!(broken.as_deref(), Some("its value is false"));
        let rule = Rule::compile("fails", "objects[3].kind == 'Pod'").unwrap();
        assert!(
            rule.broken_by(&json!([]))
                .unwrap()
                .starts_with("it fails: ")
        );
    }

    #[test]
    fn a_rule_that_is_no_condition_is_refused() {
        assert!(
            Rule::compile("a", "objects.size()")
                .unwrap_err()
                .contains("must be a bool")
        );
        assert!(
            Rule::compile("a", "objects.size( ==")
                .unwrap_err()
                .contains("Syntax error")
        );
        assert!(
            Rule::compile("a", "object.kind == 'Pod'")
                .unwrap_err()
                .contains("undeclared reference")
        );
    }
}
