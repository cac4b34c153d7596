//! Machine: configurations of admission webhooks (upstream: `pkg/apis/admissionregistration`).

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::status::FieldError;
use steersman_cel::{Environment, Type, Url};

use crate::Strategy;
use crate::fields::authorities;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, list, part, set};
use crate::fields::reference;
use crate::fields::selector;

pub(crate) const MUTATING: Strategy = Strategy {
    defaults: |object| defaults(object, true),
    validate: |object, old| validate(object, old, true),
    ..Strategy::PLAIN
};

pub(crate) const VALIDATING: Strategy = Strategy {
    defaults: |object| defaults(object, false),
    validate: |object, old| validate(object, old, false),
    ..Strategy::PLAIN
};

/// Versions of AdmissionReview that an API server supports.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const HARMLESS: &[&str] = &["None", "NoneOnDryRun"];
const EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(crate) const FAILURES: &[&str] = &["Fail", "Ignore"];
pub(crate) const MATCHES: &[&str] = &["Equivalent", "Exact"];
const MOST_CONDITIONS: usize = 64;
const FORM: &str = "; desired format: https://host[/path]";

fn defaults(object: &mut Value, mutating: bool) {
    for hook in list(object, "webhooks") {
        set(hook, "failurePolicy", json!("Fail"));
        set(hook, "matchPolicy", json!("Equivalent"));
        set(hook, "namespaceSelector", json!({}));
        set(hook, "objectSelector", json!({}));
        set(hook, "timeoutSeconds", json!(10));
        if mutating {
            set(hook, "reinvocationPolicy", json!("Never"));
        }
        for rule in list(hook, "rules") {
            set(rule, "scope", json!("*"));
        }
        set(hook, "sideEffects", Value::Null);
        set(hook, "admissionReviewVersions", Value::Null);
        let service = part(hook, "clientConfig").and_then(|config| given(config, "service"));
        if let Some(service) = service {
            set(service, "port", json!(443));
        }
    }
}

fn hooks(object: &Value) -> impl Iterator<Item = &Value> {
    object["webhooks"].as_array().into_iter().flatten()
}

fn knows_a_version(hook: &Value) -> bool {
    let versions = hook["admissionReviewVersions"].as_array();
    let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
    versions.any(|version| VERSIONS.contains(&version))
}

fn validate(object: &Value, old: Option<&Value>, mutating: bool) -> Errors {
    let mut errors = Errors::default();
    let harmless = |hook: &Value| {
        let effects = hook["sideEffects"].as_str();
        effects.is_some_and(|effects| HARMLESS.contains(&effects))
    };
    let unique = |old: &Value| {
        let mut names: Vec<&str> = hooks(old)
            .filter_map(|hook| hook["name"].as_str())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        names.len() == all
    };
    // Stored objects may violate rules that are newer than the objects.
    let strict_effects = old.is_none_or(|old| hooks(old).all(harmless));
    let strict_versions = old.is_none_or(|old| {
        hooks(old).all(|hook| {
            let none = hook["admissionReviewVersions"].as_array();
            none.is_none_or(Vec::is_empty) || knows_a_version(hook)
        })
    });
    let strict_names = old.is_none_or(unique);
    let mut seen = Vec::new();
    for hook in FieldPath::root(object).at("webhooks").items() {
        check_hook(&hook, strict_effects, mutating, &mut errors);
        versions(&hook, strict_versions, &mut errors);
        let name = hook.at("name");
        if strict_names && !name.is_empty() {
            if seen.contains(&name.text()) {
                errors.duplicate(&name);
            }
            seen.push(name.text());
        }
    }
    errors
}

fn check_hook(hook: &FieldPath<'_>, strict: bool, mutating: bool, errors: &mut Errors) {
    reference::check_domain(&hook.at("name"), errors);
    for rule in hook.at("rules").items() {
        check_rule(&rule, errors);
    }
    for (field, supported) in [("failurePolicy", FAILURES), ("matchPolicy", MATCHES)] {
        if hook.at(field).is_set() {
            check::one_of(&hook.at(field), supported, errors);
        }
    }
    let allowed = if strict { HARMLESS } else { EFFECTS };
    let effects = hook.at("sideEffects");
    if effects.is_set() {
        check::one_of(&effects, allowed, errors);
    } else {
        let detail = format!("must specify one of {}", allowed.join(", "));
        errors.required(&effects, &detail);
    }
    let timeout = hook.at("timeoutSeconds");
    if timeout.is_set() && !(1..=30).contains(&timeout.int()) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&timeout, detail);
    }
    selector::check(&hook.at("namespaceSelector"), errors);
    selector::check(&hook.at("objectSelector"), errors);
    let again = hook.at("reinvocationPolicy");
    if mutating && again.is_set() {
        check::one_of(&again, &["IfNeeded", "Never"], errors);
    }
    let config = hook.at("clientConfig");
    let (url, service) = (config.at("url"), config.at("service"));
    if url.is_set() == service.is_set() {
        errors.required(&config, "exactly one of url or service is required");
    } else if url.is_set() {
        check_url(&url, errors);
    } else {
        check_service(&service, errors);
    }
    let environment = Environment::new(false, true);
    conditions(&hook.at("matchConditions"), &environment, errors);
}

/// Checks the configuration of a conversion webhook of a CustomResourceDefinition (upstream:
/// `validateCustomResourceConversion`). `path` is the path of the configuration in messages.
#[must_use]
///
/// With `any_bundle`, an invalid CA bundle passes.
pub(crate) fn check_conversion(webhook: &Value, any_bundle: bool, path: &str) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let config = FieldPath::new(
        format!("{path}.webhookClientConfig"),
        &webhook["clientConfig"],
    );
    let (url, service) = (config.at("url"), config.at("service"));
    if !config.is_set() {
        errors.required(&config, "required when strategy is set to Webhook");
    } else if url.is_set() == service.is_set() {
        errors.required(&config, "exactly one of url or service is required");
    } else if url.is_set() {
        check_url(&url, &mut errors);
    } else {
        check_service(&service, &mut errors);
    }
    let bundle = config.at("caBundle");
    if let Some(why) = authorities::mistake(bundle.text()).filter(|_| !any_bundle) {
        let detail = format!("unable to load root certificates: {why}");
        errors.invalid(&bundle, &detail);
    }
    let versions = FieldPath::new(
        format!("{path}.conversionReviewVersions"),
        &webhook["conversionReviewVersions"],
    );
    let reviews = versions.items();
    let known = reviews
        .into_iter()
        .any(|one| VERSIONS.contains(&one.text()));
    check_versions(&versions, "", !known, &mut errors);
    errors.into()
}

fn versions(hook: &FieldPath<'_>, strict: bool, errors: &mut Errors) {
    let versions = hook.at("admissionReviewVersions");
    let missing = format!("must specify one of {}", VERSIONS.join(", "));
    let unknown = strict && !knows_a_version(hook.value());
    check_versions(&versions, &missing, unknown, errors);
}

/// Checks review versions. `missing` is the error for an empty list, and `unknown` the error for a
/// list without a supported version.
fn check_versions(versions: &FieldPath<'_>, missing: &str, unknown: bool, errors: &mut Errors) {
    if versions.is_empty() {
        errors.required(versions, missing);
        return;
    }
    let mut seen = Vec::new();
    for version in versions.items() {
        if seen.contains(&version.text()) {
            errors.invalid(&version, "duplicate version");
            continue;
        }
        seen.push(version.text());
        check::name(NameRule::Label1035, &version, errors);
    }
    if unknown {
        let detail = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.invalid(versions, &detail);
    }
}

/// Checks a rule of a webhook or a policy (upstream: `validateRuleWithOperations`).
pub(crate) fn check_rule(rule: &FieldPath<'_>, errors: &mut Errors) {
    let operations = rule.at("operations");
    let wild = |at: &FieldPath<'_>| at.len() > 1 && at.items().any(|one| one.text() == "*");
    if operations.is_empty() {
        errors.required(&operations, "");
    }
    if wild(&operations) {
        let detail = "if '*' is present, must not specify other operations";
        errors.invalid(&operations, detail);
    }
    for operation in operations.items() {
        check::one_of(&operation, OPERATIONS, errors);
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let at = rule.at(field);
        if at.is_empty() {
            errors.required(&at, "");
        }
        if wild(&at) {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.invalid(&at, &detail);
        }
    }
    for version in rule.at("apiVersions").items() {
        if version.is_empty() {
            errors.required(&version, "");
        }
    }
    resources(&rule.at("resources"), errors);
    let scope = rule.at("scope");
    if scope.is_set() {
        check::one_of(&scope, &["*", "Cluster", "Namespaced"], errors);
    }
}

fn resources(all: &FieldPath<'_>, errors: &mut Errors) {
    if all.is_empty() {
        errors.required(all, "");
    }
    let (mut wild_below, mut wild_above) = (Vec::new(), Vec::new());
    let (mut double, mut single, mut plain) = (false, false, false);
    for one in all.items() {
        let text = one.text();
        if text.is_empty() {
            errors.required(&one, "");
            continue;
        }
        double |= text == "*/*";
        single |= text == "*";
        let Some((resource, below)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if wild_below.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {text}");
            errors.invalid(&one, &detail);
        }
        if wild_above.contains(&below) {
            let detail = format!("if '*/{below}' is present, must not specify {text}");
            errors.invalid(&one, &detail);
        }
        if below == "*" {
            wild_below.push(resource);
        }
        if resource == "*" {
            wild_above.push(below);
        }
    }
    if all.len() > 1 && double {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(all, detail);
    }
    if single && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(all, detail);
    }
}

/// Checks the URL of a webhook (upstream: `ValidateWebhookURL`).
fn check_url(at: &FieldPath<'_>, errors: &mut Errors) {
    let (before, fragment) = at.text().split_once('#').unwrap_or((at.text(), ""));
    let url = match parsed_url(before) {
        Ok(url) => url,
        Err(why) => {
            let detail = format!("url must be a valid URL: {why}{FORM}");
            return errors.required(at, &detail);
        }
    };
    let (_, rest) = before.split_once("//").unwrap_or(("", ""));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let mut refuse = |value: &str, detail: &str| errors.invalid_as(at, &json!(value), detail);
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        refuse(&url.scheme, &detail);
    }
    if url.host.is_empty() {
        refuse(&url.host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        refuse(&url.query, "query parameters are not permitted in the URL");
    }
}

/// Parses a URL without its fragment as Go's `url.Parse` does, which takes relative ones as well.
fn parsed_url(text: &str) -> Result<Url, String> {
    let empty = Url {
        scheme: String::new(),
        host: String::new(),
        path: text.to_owned(),
        query: String::new(),
    };
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    let (first, _) = before.split_once('/').unwrap_or((before, ""));
    match Url::parse(text) {
        // A request needs an absolute URL, and a reference does not.
        Err(_) if text.is_empty() => Ok(empty),
        Err(why) if why.ends_with(": invalid URI for request") => match first.contains(':') {
            true => Err(why.replace(
                "invalid URI for request",
                "first path segment in URL cannot contain colon",
            )),
            false => Ok(Url {
                query: query.to_owned(),
                ..empty
            }),
        },
        parsed => parsed,
    }
}

/// Checks the reference to the Service of a webhook (upstream: `ValidateWebhookService`).
fn check_service(at: &FieldPath<'_>, errors: &mut Errors) {
    let (name, namespace) = (at.at("name"), at.at("namespace"));
    // Upstream passes name and namespace to `ValidateWebhookService` in the wrong order.
    if namespace.is_empty() {
        errors.required(&name, "");
    }
    if name.is_empty() {
        errors.required(&namespace, "");
    }
    let port = at.at("port");
    if !(1..=65535).contains(&port.int()) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&port, detail);
    }
    let path = at.at("path");
    match path.text() {
        "" | "/" => return,
        "//" => {
            errors.invalid(&path, "segment[0] may not be empty");
            return;
        }
        _ => {}
    }
    if !path.text().starts_with('/') {
        errors.invalid(&path, "must start with a '/'");
    }
    let mut steps = path.text().chars();
    steps.next();
    let steps = steps.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&path, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for wrong in names::check_name(NameRule::Subdomain, step) {
            errors.invalid(&path, &format!("segment[{index}]: {wrong}"));
        }
    }
}

/// Checks the match conditions of a webhook or a policy. Their expressions are compiled where they
/// are evaluated.
pub(crate) fn conditions(all: &FieldPath<'_>, environment: &Environment, errors: &mut Errors) {
    if all.len() > MOST_CONDITIONS {
        errors.too_many(all, 64);
    }
    let mut seen = Vec::new();
    for condition in all.items() {
        let (name, expression) = (condition.at("name"), condition.at("expression"));
        let trimmed = expression.text().trim();
        if trimmed.is_empty() {
            errors.required(&expression, "");
        } else if let Err(why) = environment.compile(trimmed, &[Type::Bool]) {
            errors.invalid_as(&expression, &json!(trimmed), &why);
        }
        if name.is_empty() {
            errors.required(&name, "");
            continue;
        }
        check::qualified(&name, errors);
        if seen.contains(&name.text()) {
            errors.duplicate(&name);
        }
        seen.push(name.text());
    }
}
