//! Machine: the compiled validations of one ValidatingAdmissionPolicy, and their evaluation (upstream:
//! `apiserver/pkg/admission/plugin/policy/validating`).

use serde_json::Value as Json;
use steersman_cel::{Environment, Expression, Type, Value, VariableValues};

use super::policy::{BUDGET, ExpressionVariables, Policy, Rules};
use crate::values::{items, text};

/// Maximum length, in bytes, of the text of a `messageExpression`. In place of a longer text, `message` is used.
const LONGEST_MESSAGE: usize = 5 * 1024;

#[derive(Debug)]
pub(crate) struct Validating {
    validations: Vec<Validation>,
    notes: Vec<Expression>,
}

#[derive(Debug)]
struct Validation {
    rule: Expression,
    maker: Option<Expression>,
    message: String,
    reason: String,
}

#[derive(Debug)]
pub(crate) struct Objection {
    pub(crate) message: String,
    /// The reason in the `Status` of a refusal; empty if the validation has no `reason`.
    pub(crate) reason: String,
}

impl Rules for Validating {
    const PLURALS: (&'static str, &'static str) = (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    );

    fn compile(environment: Environment, spec: &Json) -> Self {
        let listed = |field: &str| items(&spec[field]).iter();
        let validations = listed("validations").map(|one| Validation::of(&environment, one));
        let notes = listed("auditAnnotations").map(|one| {
            let results = [Type::String, Type::Null];
            Expression::of(&environment, &one["valueExpression"], &results)
        });
        Self {
            validations: validations.collect(),
            notes: notes.collect(),
        }
    }
}

impl Validating {
    pub(crate) fn objections(
        &self,
        policy: &Policy,
        scene: &ExpressionVariables<'_>,
    ) -> Vec<Objection> {
        let failed = |message: String| {
            let reason = String::new();
            let objection = Objection { message, reason };
            Vec::from_iter((!policy.ignores_failure).then_some(objection))
        };
        let values = match scene.values() {
            Ok(values) => values,
            Err(why) => return failed(why),
        };
        match policy.is_met(&values) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return failed(why),
        }
        let mut left = BUDGET;
        let made = policy.variables(&values, &mut left);
        let mut objections = Vec::new();
        for validation in &self.validations {
            match validation.rule.run(&values, &made, &mut left) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => {
                    let message = validation.message_of(&values, &made, &mut left);
                    let reason = validation.reason.clone();
                    objections.push(Objection { message, reason });
                }
                Err(why) => objections.extend(failed(why)),
            }
        }
        for note in &self.notes {
            if let Err(why) = note.run(&values, &made, &mut left) {
                objections.extend(failed(why));
            }
        }
        objections
    }
}

impl Validation {
    fn of(environment: &Environment, validation: &Json) -> Self {
        let maker = &validation["messageExpression"];
        Self {
            rule: Expression::of(environment, &validation["expression"], &[Type::Bool]),
            maker: maker.is_string().then(|| {
                let environment = environment.without_authorizer();
                Expression::of(&environment, maker, &[Type::String])
            }),
            message: text(&validation["message"]).trim().to_owned(),
            reason: text(&validation["reason"]).to_owned(),
        }
    }

    fn message_of<'a>(
        &self,
        values: &[(&str, Value<'a>)],
        made: &VariableValues<'a>,
        left: &mut u64,
    ) -> String {
        let text = self.maker.as_ref().and_then(|maker| {
            let Ok(Value::Text(text)) = maker.run(values, made, left) else {
                return None;
            };
            let text = text.trim();
            let fine = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
            fine.then(|| text.to_owned())
        });
        text.unwrap_or_else(|| match self.message.as_str() {
            "" => format!("failed expression: {}", self.rule.text().trim()),
            message => message.to_owned(),
        })
    }
}
