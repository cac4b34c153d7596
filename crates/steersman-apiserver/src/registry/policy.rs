//! Machine: one ValidatingAdmissionPolicy with its bindings, compiled, and what it says of a request.
//!
//! Kubernetes source: `apiserver/pkg/admission/plugin/policy/validating`.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::schema::cel::{
    CALL_LIMIT, Environment, Failure, NAMESPACE, Outcome, Program, REQUEST, Type, Value,
};
use crate::webhook::Hook;

/// What all expressions of a policy may cost together.
const BUDGET: u64 = 10_000_000;
/// A message that an expression makes may have this many bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The policies that have bindings.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    /// That of the `Standing` they were compiled for; 0 for none.
    pub(super) edition: u64,
    pub(super) policies: Arc<Vec<Policy>>,
}

/// What a policy or a binding is about.
#[derive(Debug)]
pub(super) struct Constraints {
    /// What its rules name.
    pub(super) included: Hook,
    /// What they name and it is not about.
    pub(super) excluded: Hook,
}

/// A policy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) constraints: Constraints,
    /// Whether a request passes where it cannot be judged.
    pub(super) ignores_failure: bool,
    /// Version and kind of its parameters.
    pub(super) param: Option<(String, String)>,
    pub(super) bindings: Vec<Binding>,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    notes: Vec<Expression>,
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) constraints: Option<Constraints>,
    /// `paramRef`, or null.
    pub(super) param: Json,
    pub(super) denies: bool,
    pub(super) warns: bool,
}

#[derive(Debug)]
struct Validation {
    rule: Expression,
    maker: Option<Expression>,
    message: String,
    reason: String,
}

/// An expression with its text; what is wrong with it where it does not compile.
#[derive(Debug)]
struct Expression {
    text: String,
    program: Result<Program, String>,
}

/// Why a request does not pass.
#[derive(Debug)]
pub(super) struct Objection {
    pub(super) message: String,
    /// Empty where the policy names none.
    pub(super) reason: String,
}

/// What the expressions see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    /// The `request` as webhooks are told of it: with the objects.
    pub(super) request: &'a Json,
    pub(super) params: &'a Json,
    pub(super) namespace: &'a Json,
}

impl Constraints {
    fn of(name: &str, constraints: &Json) -> Self {
        Self {
            included: Hook::of_policy(name, constraints, "resourceRules"),
            excluded: Hook::of_policy(name, constraints, "excludeResourceRules"),
        }
    }
}

impl Expression {
    fn of(environment: &Environment, text: &Json, results: &[Type]) -> Self {
        let text = text.as_str().unwrap_or_default().to_owned();
        let program = environment
            .compile(&text, results)
            .map_err(|why| format!("compilation error: {why}"));
        Self { text, program }
    }

    /// Whether it asks the authorizer, who does not answer here.
    fn asks(&self) -> bool {
        matches!(&self.program, Ok(program) if program.uses("authorizer"))
    }

    fn run<'a>(
        &self,
        values: &[(&str, Value<'a>)],
        made: &[(String, Outcome<'a>)],
        left: &mut u64,
    ) -> Result<Value<'a>, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let (outcome, cost) = program.run_composed(values, made, CALL_LIMIT);
        if cost > *left {
            *left = 0;
            return Err("validation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        *left -= cost;
        outcome.map_err(|failure| {
            let why = match failure {
                Failure::Error(why) => why,
                Failure::Limit => "operation cancelled: actual cost limit exceeded".to_owned(),
            };
            format!("expression '{}' resulted in error: {why}", self.text)
        })
    }
}

impl Policy {
    /// Compiles a policy with those of the bindings that name it.
    pub(super) fn compile<'a>(policy: &Json, bindings: impl Iterator<Item = &'a Json>) -> Self {
        let name = policy["metadata"]["name"].as_str().unwrap_or_default();
        let spec = &policy["spec"];
        let listed = |value: &Json| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let kind = &spec["paramKind"];
        let param = kind
            .is_object()
            .then(|| (text(&kind["apiVersion"]), text(&kind["kind"])));
        let mut environment = Environment::new(param.is_some(), true);
        let conditions = listed(&spec["matchConditions"]);
        let conditions = conditions
            .iter()
            .map(|one| Expression::of(&environment, &one["expression"], &[Type::Bool]))
            .collect();
        let mut variables = Vec::new();
        for variable in listed(&spec["variables"]) {
            let name = text(&variable["name"]);
            let made = Expression::of(&environment, &variable["expression"], &[]);
            let kind = made.program.as_ref().map(Program::result);
            environment.declare(&name, kind.cloned().unwrap_or(Type::Dyn));
            variables.push((name, made));
        }
        let validations = listed(&spec["validations"]);
        let validations = validations.iter().map(|one| Validation {
            rule: Expression::of(&environment, &one["expression"], &[Type::Bool]),
            maker: one["messageExpression"].is_string().then(|| {
                let results = [Type::String];
                Expression::of(&environment, &one["messageExpression"], &results)
            }),
            message: text(&one["message"]).trim().to_owned(),
            reason: text(&one["reason"]),
        });
        let notes = listed(&spec["auditAnnotations"]);
        let notes = notes.iter().map(|one| {
            let results = [Type::String, Type::Null];
            Expression::of(&environment, &one["valueExpression"], &results)
        });
        Self {
            name: name.to_owned(),
            constraints: Constraints::of(name, &spec["matchConstraints"]),
            ignores_failure: spec["failurePolicy"] == "Ignore",
            param,
            bindings: bindings
                .filter(|one| one["spec"]["policyName"] == name)
                .map(Binding::of)
                .collect(),
            conditions,
            variables,
            validations: validations.collect(),
            notes: notes.collect(),
        }
    }

    /// What the policy has against a request.
    pub(super) fn objections(&self, scene: Scene<'_>) -> Vec<Objection> {
        let failed = |message: String| {
            let objection = Objection {
                message,
                reason: String::new(),
            };
            let told = !self.ignores_failure;
            told.then_some(objection).into_iter().collect::<Vec<_>>()
        };
        let values = match values(scene) {
            Ok(values) => values,
            Err(why) => return failed(why),
        };
        let mut left = BUDGET;
        match self.is_met(&values, &mut left) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return failed(why),
        }
        let mut left = BUDGET;
        let mut made: Vec<(String, Outcome<'_>)> = Vec::new();
        for (name, expression) in &self.variables {
            let outcome = expression.run(&values, &made, &mut left).map_err(|why| {
                let why = why
                    .split_once("resulted in error: ")
                    .map_or(&*why, |(_, why)| why);
                let told = format!("composited variable \"{name}\" fails to evaluate: {why}");
                Failure::Error(told)
            });
            made.push((name.clone(), outcome));
        }
        let mut objections = Vec::new();
        for validation in &self.validations {
            if validation.rule.asks() {
                continue;
            }
            match validation.rule.run(&values, &made, &mut left) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => {
                    let message = validation.told(&values, &made, &mut left);
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

    /// Whether the match conditions hold.
    fn is_met(&self, values: &[(&str, Value<'_>)], left: &mut u64) -> Result<bool, String> {
        let mut wrong = Vec::new();
        for condition in &self.conditions {
            if condition.asks() {
                continue;
            }
            match condition.run(values, &[], left) {
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
}

impl Binding {
    fn of(binding: &Json) -> Self {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        let spec = &binding["spec"];
        let resources = &spec["matchResources"];
        let actions = spec["validationActions"].as_array();
        let does = |action: &str| actions.is_some_and(|all| all.iter().any(|one| one == action));
        Self {
            name: name.to_owned(),
            constraints: resources.is_object().then(|| {
                let mut resources = resources.clone();
                let rules = resources["resourceRules"].as_array();
                if rules.is_none_or(Vec::is_empty) {
                    // Without rules it is about all that its policy is about.
                    resources["resourceRules"] = json!([{"operations": ["*"], "apiGroups": ["*"],
                        "apiVersions": ["*"], "resources": ["*/*"]}]);
                }
                Constraints::of(name, &resources)
            }),
            param: spec["paramRef"].clone(),
            denies: does("Deny"),
            warns: does("Warn"),
        }
    }
}

impl Validation {
    /// The message of a rule that does not hold.
    fn told<'a>(
        &self,
        values: &[(&str, Value<'a>)],
        made: &[(String, Outcome<'a>)],
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
        text.unwrap_or_else(|| {
            if self.message.is_empty() {
                format!("failed expression: {}", self.rule.text.trim())
            } else {
                self.message.clone()
            }
        })
    }
}

fn values(scene: Scene<'_>) -> Result<Vec<(&'static str, Value<'_>)>, String> {
    let namespace = if scene.namespace.is_null() {
        Value::Null
    } else {
        Value::of(scene.namespace, Some(&NAMESPACE))?
    };
    Ok(vec![
        ("object", Value::of(&scene.request["object"], None)?),
        ("oldObject", Value::of(&scene.request["oldObject"], None)?),
        ("request", Value::of(scene.request, Some(&REQUEST))?),
        ("params", Value::of(scene.params, None)?),
        ("namespaceObject", namespace),
    ])
}
