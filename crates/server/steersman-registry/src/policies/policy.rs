//! Machine: the parts that validating and mutating admission policies share: matched writes, conditions, and variables
//! (upstream: `apiserver/pkg/admission/plugin/policy/generic`).

use std::sync::Arc;

use serde_json::{Value as Json, json};
use steersman_auth::{Attributes, Authorizer, Decision, User};
use steersman_cel::{
    AccessAttributes, AccessDecider, AccessDecision, Environment, Expression, NAMESPACE, Query,
    REQUEST, REQUEST_RESOURCE, Value, VariableValues, all_hold,
};

use crate::values::{has_text, items, text};
use crate::webhook::RegisteredWebhook;

/// Maximum cost of one evaluation of all expressions of a policy, in CEL cost units (`RuntimeCELCostBudget`).
pub(crate) const BUDGET: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct Constraints {
    pub(crate) included: RegisteredWebhook,
    pub(crate) excluded: RegisteredWebhook,
}

/// The parts that validating and mutating policies share: the writes that they match, match conditions, and variables.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) constraints: Constraints,
    /// Whether a write passes if the policy cannot be evaluated (`failurePolicy: Ignore`).
    pub(crate) ignores_failure: bool,
    /// The `apiVersion` and `kind` of the policy's parameter objects (`paramKind`); `None` without parameters.
    pub(crate) param: Option<[String; 2]>,
    pub(crate) bindings: Vec<Binding>,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
}

/// An admission policy with its bindings and its compiled validations or mutations (`rules`).
#[derive(Debug)]
pub(crate) struct BoundPolicy<R> {
    pub(crate) policy: Policy,
    pub(crate) rules: R,
}

/// The part of a policy that differs between validating policies (their validations) and mutating ones (mutations).
pub(crate) trait Rules {
    /// The plural names of the policy's kind and of the kind of its bindings.
    const PLURALS: (&'static str, &'static str);

    /// Compiles the validations or mutations in the spec of a policy; `environment` declares the variables that their
    /// expressions may use.
    fn compile(environment: Environment, spec: &Json) -> Self;
}

#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) constraints: Option<Constraints>,
    /// The binding's `paramRef`, which selects the parameter objects of the policy; null if it is absent.
    pub(crate) param: Json,
    pub(crate) denies: bool,
    pub(crate) warns: bool,
}

#[derive(Debug)]
pub(crate) struct ExpressionVariables<'a> {
    /// The variable `request`: the `request` of an AdmissionReview. Its `object` and `oldObject` are also variables.
    pub(crate) request: Json,
    pub(crate) params: &'a Json,
    /// The variable `namespaceObject`: the Namespace of the object. Null for cluster-scoped objects, and in the match
    /// conditions of webhooks.
    pub(crate) namespace: Json,
    pub(crate) asker: RequestAuthorizer<'a>,
}

/// The variable `authorizer`, with which CEL expressions check permissions of the user of the request.
#[derive(Debug)]
pub(crate) struct RequestAuthorizer<'a> {
    pub(crate) authorizer: Authorizer<'a>,
    pub(crate) user: &'a User,
    pub(crate) resource: AccessAttributes,
}

impl AccessDecider for RequestAuthorizer<'_> {
    fn decide(&self, verb: &str, asked: &AccessAttributes) -> AccessDecision {
        let mut attributes = Attributes::of(verb, &asked.group, &asked.resource, &asked.name);
        attributes.subresource.clone_from(&asked.subresource);
        attributes.namespace.clone_from(&asked.namespace);
        attributes.path.clone_from(&asked.path);
        let account = asked.account.as_ref();
        let account = account.map(|(namespace, name)| User::service_account(namespace, name));
        let user = account.as_ref().unwrap_or(self.user);
        let Decision { allowed, reason } = self.authorizer.authorize(user, &attributes);
        AccessDecision { allowed, reason }
    }
}

impl Constraints {
    fn of(name: &str, constraints: &Json) -> Self {
        Self {
            included: RegisteredWebhook::of_policy(name, constraints, "resourceRules"),
            excluded: RegisteredWebhook::of_policy(name, constraints, "excludeResourceRules"),
        }
    }
}

impl<R: Rules> BoundPolicy<R> {
    pub(crate) fn compile<'a>(policy: &Json, bindings: impl Iterator<Item = &'a Json>) -> Self {
        let spec = &policy["spec"];
        let (policy, environment) = Policy::compile(policy, bindings);
        let rules = R::compile(environment, spec);
        Self { policy, rules }
    }
}

impl Policy {
    /// Compiles the bindings, match conditions and variables of a policy. Also returns the environment that declares
    /// these variables, to compile the validations or mutations.
    fn compile<'a>(policy: &Json, bindings: impl Iterator<Item = &'a Json>) -> (Self, Environment) {
        let name = text(&policy["metadata"]["name"]);
        let spec = &policy["spec"];
        let kind = &spec["paramKind"];
        let named = || ["apiVersion", "kind"].map(|field| text(&kind[field]).to_owned());
        let param = kind.is_object().then(named);
        let mut environment = Environment::new(param.is_some(), true);
        let conditions = Expression::conditions(&environment, &spec["matchConditions"]);
        let mut variables = Vec::new();
        for variable in items(&spec["variables"]) {
            let name = text(&variable["name"]);
            let made = Expression::of(&environment, &variable["expression"], &[]);
            environment.declare(name, made.result());
            variables.push((name.to_owned(), made));
        }
        let policy = Self {
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
        };
        (policy, environment)
    }

    /// Returns whether all match conditions of the policy are true. If a condition cannot be evaluated, returns false
    /// with `failurePolicy: Ignore`, and otherwise fails with the error's message.
    pub(crate) fn is_met(&self, values: &[(&str, Value<'_>)]) -> Result<bool, String> {
        let held = all_hold(&self.conditions, values);
        if self.ignores_failure {
            return Ok(held.unwrap_or(false));
        }
        held
    }

    pub(crate) fn variables<'a>(
        &self,
        values: &[(&str, Value<'a>)],
        left: &mut u64,
    ) -> VariableValues<'a> {
        let mut made = VariableValues::new();
        for (name, expression) in &self.variables {
            expression.run_variable(name, values, &mut made, left);
        }
        made
    }
}

impl Binding {
    fn of(binding: &Json) -> Self {
        let name = text(&binding["metadata"]["name"]);
        let spec = &binding["spec"];
        let resources = &spec["matchResources"];
        let actions = &spec["validationActions"];
        Self {
            name: name.to_owned(),
            constraints: resources.is_object().then(|| {
                let mut resources = resources.clone();
                if items(&resources["resourceRules"]).is_empty() {
                    // Without `resourceRules`, a binding matches every write that its policy matches.
                    resources["resourceRules"] = json!([{"operations": ["*"], "apiGroups": ["*"],
                        "apiVersions": ["*"], "resources": ["*/*"]}]);
                }
                Constraints::of(name, &resources)
            }),
            param: spec["paramRef"].clone(),
            denies: has_text(actions, "Deny"),
            warns: has_text(actions, "Warn"),
        }
    }
}

impl ExpressionVariables<'_> {
    /// Returns the name and the CEL value of each variable. Fails with a message if the JSON of a variable does not
    /// have the type that is declared for it.
    pub(crate) fn values(&self) -> Result<Vec<(&'static str, Value<'_>)>, String> {
        let namespace = if self.namespace.is_null() {
            Value::Null
        } else {
            Value::of(&self.namespace, Some(&NAMESPACE))?
        };
        let authorizer = Query::new(&self.asker);
        let resource = Query::of_resource(&self.asker, self.asker.resource.clone());
        Ok(vec![
            ("object", Value::of(&self.request["object"], None)?),
            ("oldObject", Value::of(&self.request["oldObject"], None)?),
            ("request", Value::of(&self.request, Some(&REQUEST))?),
            ("params", Value::of(self.params, None)?),
            ("namespaceObject", namespace),
            ("authorizer", Value::Query(Arc::new(authorizer))),
            (REQUEST_RESOURCE, Value::Query(Arc::new(resource))),
        ])
    }
}
