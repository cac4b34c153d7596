//! Machine: admission policies and their bindings (upstream: `pkg/apis/admissionregistration`).

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names::{self, NameRule};
use steersman_cel::{Environment, Type};

use super::webhooks::{FAILURES, MATCHES, check_rule, conditions};
use crate::Strategy;
use crate::fields::fill::{given, list, part, set};
use crate::fields::{FieldPath, check, selector};

pub(crate) const VALIDATING_POLICY: Strategy = Strategy {
    defaults: policy_defaults,
    validate: |object, _| {
        let spec = object.at("spec");
        let environment = check_policy(&spec);
        check_validations(object, &spec, &environment);
    },
    validate_status: |object, _| {
        let status = object.at("status");
        let warnings = status.down("typeChecking.expressionWarnings");
        warnings.each(|warning| warning.need_all(&["warning", "fieldRef"]));
        check::conditions(&status.at("conditions"));
    },
    ..Strategy::PLAIN
};

pub(crate) const VALIDATING_BINDING: Strategy = Strategy {
    defaults: binding_defaults,
    validate: |object, _| {
        let spec = object.at("spec");
        check_binding(&spec);
        check_actions(&spec.at("validationActions"));
    },
    ..Strategy::PLAIN
};

pub(crate) const MUTATING_POLICY: Strategy = Strategy {
    defaults: policy_defaults,
    validate: |object, _| {
        let spec = object.at("spec");
        let environment = check_policy(&spec);
        check_mutations(&spec, &environment);
    },
    ..Strategy::PLAIN
};

pub(crate) const MUTATING_BINDING: Strategy = Strategy {
    defaults: binding_defaults,
    validate: |object, _| check_binding(&object.at("spec")),
    ..Strategy::PLAIN
};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const MOST_ANNOTATIONS: usize = 20;
/// Largest number of bytes in the expression of an audit annotation.
const LONGEST_NOTE: usize = 5 * 1024;

fn match_defaults(resources: &mut Value) {
    set(resources, "matchPolicy", json!("Equivalent"));
    set(resources, "namespaceSelector", json!({}));
    set(resources, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in list(resources, rules) {
            set(rule, "scope", json!("*"));
        }
    }
}

fn policy_defaults(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "failurePolicy", json!("Fail"));
        if let Some(constraints) = given(spec, "matchConstraints") {
            match_defaults(constraints);
        }
    }
}

fn binding_defaults(object: &mut Value) {
    if let Some(spec) = part(object, "spec")
        && let Some(resources) = given(spec, "matchResources")
    {
        match_defaults(resources);
    }
}

/// Checks a policy. Returns the variables that its expressions may use.
fn check_policy(spec: &FieldPath<'_>) -> Environment {
    check::required_one_of(&spec.at("failurePolicy"), FAILURES);
    let kind = spec.at("paramKind");
    kind.if_set(check_kind);
    let constraints = spec.at("matchConstraints");
    if constraints.need_set("") {
        check_match(&constraints);
        constraints.at("resourceRules").need("");
    }
    let mut environment = Environment::new(kind.is_set(), true);
    conditions(&spec.at("matchConditions"), &environment);
    for variable in spec.at("variables").items() {
        let (name, expression) = (variable.at("name"), variable.at("expression"));
        if name.text().trim().is_empty() {
            name.required("name is not specified");
        } else if !is_identifier(name.text()) {
            name.invalid("name is not a valid CEL identifier");
        }
        if expression.text().trim().is_empty() {
            expression.required("expression is not specified");
            continue;
        }
        let found = compiled(&environment, &expression, &[]);
        environment.declare(name.text(), found.unwrap_or(Type::Dyn));
    }
    environment
}

/// Checks that an expression compiles, and returns its type.
fn compiled(
    environment: &Environment,
    expression: &FieldPath<'_>,
    results: &[Type],
) -> Option<Type> {
    match environment.compile(expression.text(), results) {
        Ok(program) => Some(program.result().clone()),
        Err(why) => {
            expression.invalid(&why);
            None
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(legal) && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn check_kind(at: &FieldPath<'_>) {
    let (version, kind) = (at.at("apiVersion"), at.at("kind"));
    let text = version.text();
    if text.is_empty() {
        version.required("");
    } else if check::group_version(&version) {
        let (group, short) = text.split_once('/').unwrap_or(("", text));
        if !group.is_empty() {
            version.invalid_joined(group, &names::check_name(NameRule::Subdomain, group));
        }
        let wrong = names::check_name(NameRule::Label1035, short);
        if short.is_empty() {
            version.invalid("version must be specified");
        } else {
            version.invalid_joined(short, &wrong);
        }
    }
    check::required(&kind, check::kind);
}

fn check_match(at: &FieldPath<'_>) {
    check::required_one_of(&at.at("matchPolicy"), MATCHES);
    for selector in at.parts(["namespaceSelector", "objectSelector"]) {
        selector.need_set("");
        selector::check(&selector);
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in at.at(rules).items() {
            let mut seen = HashSet::new();
            for name in rule.at("resourceNames").items() {
                check::name(NameRule::PathSegment, &name);
                name.unique(&mut seen);
            }
            check_rule(&rule);
        }
    }
}

fn check_validations(policy: &FieldPath<'_>, spec: &FieldPath<'_>, environment: &Environment) {
    let (validations, notes) = (spec.at("validations"), spec.at("auditAnnotations"));
    if validations.is_empty() && notes.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        validations.required(detail);
        return notes.required(detail);
    }
    validations.each(|validation| check_validation(validation, environment));
    if notes.len() > MOST_ANNOTATIONS {
        let detail = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        notes.invalid(&detail);
    }
    let mut seen = HashSet::new();
    for note in notes.items() {
        let (key, value) = (note.at("key"), note.at("valueExpression"));
        let own = policy.down("metadata.name").text();
        let whole = json!(format!("{own}/{}", key.text()));
        check::qualified(&key.with(&whole));
        let trimmed = value.text().trim();
        if trimmed.is_empty() {
            value.required("valueExpression is not specified");
        } else if trimmed.len() > LONGEST_NOTE {
            value.required(&format!("must not exceed {LONGEST_NOTE} bytes in length"));
        } else {
            compiled(environment, &value, &[Type::String, Type::Null]);
        }
        key.unique(&mut seen);
    }
}

fn check_validation(at: &FieldPath<'_>, environment: &Environment) {
    let (expression, message) = (at.at("expression"), at.at("message"));
    if expression.text().trim().is_empty() {
        expression.required("expression is not specified");
    } else {
        compiled(environment, &expression, &[Type::Bool]);
    }
    let computed = at.at("messageExpression");
    if !computed.is_empty() && computed.text().trim().is_empty() {
        computed.invalid("must be non-empty if specified");
    } else if !computed.is_empty() {
        let environment = environment.without_authorizer();
        compiled(&environment, &computed, &[Type::String]);
    }
    let trimmed = message.text().trim();
    if !message.is_empty() && trimmed.is_empty() {
        message.invalid("message must be non-empty if specified");
    } else if trimmed.contains(['\n', '\r']) {
        message.invalid("message must not contain line breaks");
    }
    check::optional(&at.at("reason"), REASONS);
}

fn check_mutations(spec: &FieldPath<'_>, environment: &Environment) {
    let environment = environment.with_changes();
    let mutations = spec.at("mutations");
    mutations.need("mutations must contain at least one item");
    for mutation in mutations.items() {
        let kind = mutation.at("patchType");
        let message = |name: &str| Type::message(name).unwrap_or(Type::Dyn);
        let form = kind.text();
        let (given, other, result) = match form {
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", message("Object")),
            "JSONPatch" => {
                let result = Type::list(message("JSONPatch"));
                ("jsonPatch", "applyConfiguration", result)
            }
            _ => {
                check::required_one_of(&kind, &["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        let (source, extra) = (mutation.at(given), mutation.at(other));
        let expression = source.at("expression");
        if !source.is_set() {
            source.required(&format!("must be specified when patchType is {form}"));
        } else if expression.text().trim().is_empty() {
            expression.required("expression is not specified");
        } else {
            compiled(&environment, &expression, &[result]);
        }
        extra.deny(&format!("must not be specified when patchType is {form}"));
    }
    check::required_one_of(&spec.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
}

fn check_binding(spec: &FieldPath<'_>) {
    check::required(&spec.at("policyName"), check::subdomain);
    spec.at("paramRef").if_set(check_parameter);
    // kube-apiserver's path has the same spelling mistake.
    spec.named("matchResouces", spec.value().get("matchResources"))
        .if_set(check_match);
}

fn check_parameter(at: &FieldPath<'_>) {
    let (name, select) = (at.at("name"), at.at("selector"));
    let both = "name and selector are mutually exclusive";
    name.if_filled(|name| check::name(NameRule::PathSegment, name));
    if select.is_set() {
        name.deny_filled(both);
    }
    selector::check(&select);
    if !name.is_empty() {
        select.deny(both);
    }
    if name.is_empty() && !select.is_set() {
        at.required("one of name or selector must be specified");
    }
    check::required_one_of(&at.at("parameterNotFoundAction"), &["Allow", "Deny"]);
}

fn check_actions(actions: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        check::one_of(&action, &["Audit", "Deny", "Warn"]);
        action.unique(&mut seen);
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid("must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
    if seen.is_empty() {
        actions.required("at least one validation action is required");
    }
}
