//! Machine: admission policies and their bindings (upstream: `pkg/apis/admissionregistration`).

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;
use steersman_cel::{Environment, Type};

use super::webhooks::{FAILURES, MATCHES, check_rule, conditions};
use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, list, part, set};
use crate::fields::selector;

pub(crate) const VALIDATING_POLICY: Strategy = Strategy {
    defaults: policy_defaults,
    validate: |object, _| {
        let mut errors = Errors::default();
        let spec = FieldPath::root(object).at("spec");
        let environment = check_policy(&spec, &mut errors);
        check_validations(object, &spec, &environment, &mut errors);
        errors
    },
    validate_status: |object, _| {
        let mut errors = Errors::default();
        let status = FieldPath::root(object).at("status");
        for warning in status.down("typeChecking.expressionWarnings").items() {
            for field in ["warning", "fieldRef"] {
                if warning.at(field).is_empty() {
                    errors.required(&warning.at(field), "");
                }
            }
        }
        check::conditions(&status.at("conditions"), &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

pub(crate) const VALIDATING_BINDING: Strategy = Strategy {
    defaults: binding_defaults,
    validate: |object, _| {
        let mut errors = Errors::default();
        let spec = FieldPath::root(object).at("spec");
        check_binding(&spec, &mut errors);
        check_actions(&spec.at("validationActions"), &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

pub(crate) const MUTATING_POLICY: Strategy = Strategy {
    defaults: policy_defaults,
    validate: |object, _| {
        let mut errors = Errors::default();
        let spec = FieldPath::root(object).at("spec");
        let environment = check_policy(&spec, &mut errors);
        check_mutations(&spec, &environment, &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

pub(crate) const MUTATING_BINDING: Strategy = Strategy {
    defaults: binding_defaults,
    validate: |object, _| {
        let mut errors = Errors::default();
        check_binding(&FieldPath::root(object).at("spec"), &mut errors);
        errors
    },
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
fn check_policy(spec: &FieldPath<'_>, errors: &mut Errors) -> Environment {
    check::required_one_of(&spec.at("failurePolicy"), FAILURES, errors);
    let kind = spec.at("paramKind");
    if kind.is_set() {
        check_kind(&kind, errors);
    }
    let constraints = spec.at("matchConstraints");
    if constraints.is_set() {
        check_match(&constraints, errors);
        let rules = constraints.at("resourceRules");
        if rules.is_empty() {
            errors.required(&rules, "");
        }
    } else {
        errors.required(&constraints, "");
    }
    let mut environment = Environment::new(kind.is_set(), true);
    conditions(&spec.at("matchConditions"), &environment, errors);
    for variable in spec.at("variables").items() {
        let (name, expression) = (variable.at("name"), variable.at("expression"));
        if name.text().trim().is_empty() {
            errors.required(&name, "name is not specified");
        } else if !is_identifier(name.text()) {
            errors.invalid(&name, "name is not a valid CEL identifier");
        }
        if expression.text().trim().is_empty() {
            errors.required(&expression, "expression is not specified");
            continue;
        }
        let found = compiled(&environment, &expression, &[], errors);
        environment.declare(name.text(), found.unwrap_or(Type::Dyn));
    }
    environment
}

/// Checks that an expression compiles, and returns its type.
fn compiled(
    environment: &Environment,
    expression: &FieldPath<'_>,
    results: &[Type],
    errors: &mut Errors,
) -> Option<Type> {
    match environment.compile(expression.text(), results) {
        Ok(program) => Some(program.result().clone()),
        Err(why) => {
            errors.invalid(expression, &why);
            None
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(legal) && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn check_kind(at: &FieldPath<'_>, errors: &mut Errors) {
    let (version, kind) = (at.at("apiVersion"), at.at("kind"));
    let text = version.text();
    if text.is_empty() {
        errors.required(&version, "");
    } else if text.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {text}");
        errors.invalid(&version, &detail);
    } else {
        let (group, short) = text.split_once('/').unwrap_or(("", text));
        let wrong = names::check_name(NameRule::Subdomain, group);
        if !group.is_empty() && !wrong.is_empty() {
            errors.invalid_as(&version, &json!(group), &wrong.join(","));
        }
        let wrong = names::check_name(NameRule::Label1035, short);
        if short.is_empty() {
            errors.invalid(&version, "version must be specified");
        } else if !wrong.is_empty() {
            errors.invalid_as(&version, &json!(short), &wrong.join(","));
        }
    }
    if kind.is_empty() {
        errors.required(&kind, "");
        return;
    }
    let wrong = names::check_name(NameRule::Label1035, &kind.text().to_lowercase());
    if !wrong.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            wrong.join(",")
        );
        errors.invalid(&kind, &detail);
    }
}

fn check_match(at: &FieldPath<'_>, errors: &mut Errors) {
    check::required_one_of(&at.at("matchPolicy"), MATCHES, errors);
    for field in ["namespaceSelector", "objectSelector"] {
        if at.at(field).is_set() {
            selector::check(&at.at(field), errors);
        } else {
            errors.required(&at.at(field), "");
        }
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in at.at(rules).items() {
            let mut seen = Vec::new();
            for name in rule.at("resourceNames").items() {
                check::name(NameRule::PathSegment, &name, errors);
                if seen.contains(&name.text()) {
                    errors.duplicate(&name);
                }
                seen.push(name.text());
            }
            check_rule(&rule, errors);
        }
    }
}

fn check_validations(
    policy: &Value,
    spec: &FieldPath<'_>,
    environment: &Environment,
    errors: &mut Errors,
) {
    let (validations, notes) = (spec.at("validations"), spec.at("auditAnnotations"));
    if validations.is_empty() && notes.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&validations, detail);
        errors.required(&notes, detail);
        return;
    }
    for validation in validations.items() {
        check_validation(&validation, environment, errors);
    }
    if notes.len() > MOST_ANNOTATIONS {
        let detail = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.invalid(&notes, &detail);
    }
    let mut seen = Vec::new();
    for note in notes.items() {
        let (key, value) = (note.at("key"), note.at("valueExpression"));
        let own = policy["metadata"]["name"].as_str().unwrap_or_default();
        let whole = json!(format!("{own}/{}", key.text()));
        check::qualified(&FieldPath::new(key.path(), &whole), errors);
        let trimmed = value.text().trim();
        if trimmed.is_empty() {
            errors.required(&value, "valueExpression is not specified");
        } else if trimmed.len() > LONGEST_NOTE {
            let detail = format!("must not exceed {LONGEST_NOTE} bytes in length");
            errors.required(&value, &detail);
        } else {
            compiled(environment, &value, &[Type::String, Type::Null], errors);
        }
        if seen.contains(&key.text()) {
            errors.duplicate(&key);
        }
        seen.push(key.text());
    }
}

fn check_validation(at: &FieldPath<'_>, environment: &Environment, errors: &mut Errors) {
    let (expression, message) = (at.at("expression"), at.at("message"));
    if expression.text().trim().is_empty() {
        errors.required(&expression, "expression is not specified");
    } else {
        compiled(environment, &expression, &[Type::Bool], errors);
    }
    let computed = at.at("messageExpression");
    if !computed.is_empty() && computed.text().trim().is_empty() {
        errors.invalid(&computed, "must be non-empty if specified");
    } else if !computed.is_empty() {
        let environment = environment.without_authorizer();
        compiled(&environment, &computed, &[Type::String], errors);
    }
    let trimmed = message.text().trim();
    if !message.is_empty() && trimmed.is_empty() {
        errors.invalid(&message, "message must be non-empty if specified");
    } else if trimmed.contains(['\n', '\r']) {
        errors.invalid(&message, "message must not contain line breaks");
    }
    if at.at("reason").is_set() {
        check::one_of(&at.at("reason"), REASONS, errors);
    }
}

fn check_mutations(spec: &FieldPath<'_>, environment: &Environment, errors: &mut Errors) {
    let environment = environment.with_changes();
    let mutations = spec.at("mutations");
    if mutations.is_empty() {
        let detail = "mutations must contain at least one item";
        errors.required(&mutations, detail);
    }
    for mutation in mutations.items() {
        let kind = mutation.at("patchType");
        let message = |name: &str| Type::message(name).unwrap_or(Type::Dyn);
        let (given, other, result) = match kind.text() {
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", message("Object")),
            "JSONPatch" => {
                let result = Type::list(message("JSONPatch"));
                ("jsonPatch", "applyConfiguration", result)
            }
            "" => {
                errors.required(&kind, "");
                continue;
            }
            _ => {
                errors.not_supported(&kind, &["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        let (source, extra) = (mutation.at(given), mutation.at(other));
        if !source.is_set() {
            let detail = format!("must be specified when patchType is {}", kind.text());
            errors.required(&source, &detail);
        } else if source.at("expression").text().trim().is_empty() {
            errors.required(&source.at("expression"), "expression is not specified");
        } else {
            compiled(&environment, &source.at("expression"), &[result], errors);
        }
        if extra.is_set() {
            let detail = format!("must not be specified when patchType is {}", kind.text());
            errors.forbidden(&extra, &detail);
        }
    }
    let again = spec.at("reinvocationPolicy");
    check::required_one_of(&again, &["IfNeeded", "Never"], errors);
}

fn check_binding(spec: &FieldPath<'_>, errors: &mut Errors) {
    let policy = spec.at("policyName");
    check::required(&policy, check::subdomain, errors);
    let parameter = spec.at("paramRef");
    if parameter.is_set() {
        check_parameter(&parameter, errors);
    }
    let resources = spec.at("matchResources");
    if resources.is_set() {
        // kube-apiserver's path has the same spelling mistake.
        let at = spec.named("matchResouces", Some(resources.value()));
        check_match(&at, errors);
    }
}

fn check_parameter(at: &FieldPath<'_>, errors: &mut Errors) {
    let (name, select) = (at.at("name"), at.at("selector"));
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        check::name(NameRule::PathSegment, &name, errors);
        if select.is_set() {
            errors.forbidden(&name, both);
        }
    }
    if select.is_set() {
        selector::check(&select, errors);
        if !name.is_empty() {
            errors.forbidden(&select, both);
        }
    }
    if name.is_empty() && !select.is_set() {
        errors.required(at, "one of name or selector must be specified");
    }
    let action = at.at("parameterNotFoundAction");
    check::required_one_of(&action, &["Allow", "Deny"], errors);
}

fn check_actions(actions: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for action in actions.items() {
        check::one_of(&action, &["Audit", "Deny", "Warn"], errors);
        if seen.contains(&action.text()) {
            errors.duplicate(&action);
        }
        seen.push(action.text());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(actions, detail);
    }
    if seen.is_empty() {
        errors.required(actions, "at least one validation action is required");
    }
}
