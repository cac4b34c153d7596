//! Machine: configurations of admission webhooks (upstream: `pkg/apis/admissionregistration`).

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names::{self, NameRule};
use steersman_cel::{Environment, Type, Url};

use crate::Strategy;
use crate::fields::fill::{complete, elements, given, list, part, set};
use crate::fields::{FieldPath, authorities, check, reference, selector};

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
        let defaults = json!({
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {},
            "objectSelector": {}, "timeoutSeconds": 10, "sideEffects": null,
            "admissionReviewVersions": null,
        });
        complete(hook, defaults);
        if mutating {
            set(hook, "reinvocationPolicy", json!("Never"));
        }
        for rule in list(hook, "rules") {
            set(rule, "scope", json!("*"));
        }
        let service = part(hook, "clientConfig").and_then(|config| given(config, "service"));
        if let Some(service) = service {
            set(service, "port", json!(443));
        }
    }
}

fn hooks(object: &Value) -> impl Iterator<Item = &Value> {
    elements(&object["webhooks"]).iter()
}

fn knows_a_version(hook: &Value) -> bool {
    elements(&hook["admissionReviewVersions"])
        .iter()
        .filter_map(Value::as_str)
        .any(|version| VERSIONS.contains(&version))
}

fn validate(object: &FieldPath<'_>, old: Option<&Value>, mutating: bool) {
    let harmless = |hook: &Value| {
        let effects = hook["sideEffects"].as_str();
        effects.is_some_and(|effects| HARMLESS.contains(&effects))
    };
    let unique = |old: &Value| {
        let mut names = HashSet::new();
        hooks(old)
            .filter_map(|hook| hook["name"].as_str())
            .all(|name| names.insert(name))
    };
    // Stored objects may violate rules that are newer than the objects.
    let strict_effects = old.is_none_or(|old| hooks(old).all(harmless));
    let strict_versions = old.is_none_or(|old| {
        let none = |hook: &Value| elements(&hook["admissionReviewVersions"]).is_empty();
        hooks(old).all(|hook| none(hook) || knows_a_version(hook))
    });
    let strict_names = old.is_none_or(unique);
    let mut seen = HashSet::new();
    for hook in object.at("webhooks").items() {
        check_hook(&hook, strict_effects, mutating);
        versions(&hook, strict_versions);
        let name = hook.at("name");
        if strict_names && !name.is_empty() {
            name.unique(&mut seen);
        }
    }
}

fn check_hook(hook: &FieldPath<'_>, strict: bool, mutating: bool) {
    reference::check_domain(&hook.at("name"));
    hook.at("rules").each(check_rule);
    for (field, supported) in [("failurePolicy", FAILURES), ("matchPolicy", MATCHES)] {
        check::optional(&hook.at(field), supported);
    }
    let allowed = if strict { HARMLESS } else { EFFECTS };
    let effects = hook.at("sideEffects");
    if effects.need_set(&format!("must specify one of {}", allowed.join(", "))) {
        check::one_of(&effects, allowed);
    }
    let timeout = hook.at("timeoutSeconds");
    if timeout.is_set() && !(1..=30).contains(&timeout.int()) {
        timeout.invalid("the timeout value must be between 1 and 30 seconds");
    }
    selector::check(&hook.at("namespaceSelector"));
    selector::check(&hook.at("objectSelector"));
    if mutating {
        check::optional(&hook.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
    }
    check_config(&hook.at("clientConfig"));
    let environment = Environment::new(false, true);
    conditions(&hook.at("matchConditions"), &environment);
}

fn check_config(config: &FieldPath<'_>) {
    let [url, service] = config.parts(["url", "service"]);
    if url.is_set() == service.is_set() {
        config.required("exactly one of url or service is required");
    } else if url.is_set() {
        check_url(&url);
    } else {
        check_service(&service);
    }
}

/// Checks the webhook of a conversion (upstream: `validateCustomResourceConversion`).
pub(crate) fn check_conversion(conversion: &FieldPath<'_>, any_bundle: bool) {
    let webhook = &conversion.value()["webhook"];
    let config = conversion.named("webhookClientConfig", webhook.get("clientConfig"));
    if config.need_set("required when strategy is set to Webhook") {
        check_config(&config);
    }
    let bundle = config.at("caBundle");
    if let Some(why) = authorities::mistake(bundle.text()).filter(|_| !any_bundle) {
        bundle.invalid(&format!("unable to load root certificates: {why}"));
    }
    let field = "conversionReviewVersions";
    let versions = conversion.named(field, webhook.get(field));
    let known = versions.items().any(|one| VERSIONS.contains(&one.text()));
    check_versions(&versions, "", !known);
}

fn versions(hook: &FieldPath<'_>, strict: bool) {
    let versions = hook.at("admissionReviewVersions");
    let missing = format!("must specify one of {}", VERSIONS.join(", "));
    let unknown = strict && !knows_a_version(hook.value());
    check_versions(&versions, &missing, unknown);
}

/// Checks review versions. `missing` is the error for an empty list.
fn check_versions(versions: &FieldPath<'_>, missing: &str, unknown: bool) {
    if versions.is_empty() {
        return versions.required(missing);
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if seen.insert(version.text()) {
            check::name(NameRule::Label1035, &version);
        } else {
            version.invalid("duplicate version");
        }
    }
    if unknown {
        let detail = format!("must include at least one of {}", VERSIONS.join(", "));
        versions.invalid(&detail);
    }
}

/// Checks a rule of a webhook or a policy (upstream: `validateRuleWithOperations`).
pub(crate) fn check_rule(rule: &FieldPath<'_>) {
    let operations = rule.at("operations");
    let wild = |at: &FieldPath<'_>| at.len() > 1 && at.items().any(|one| one.text() == "*");
    operations.need("");
    if wild(&operations) {
        operations.invalid("if '*' is present, must not specify other operations");
    }
    operations.each(|operation| check::one_of(operation, OPERATIONS));
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let at = rule.at(field);
        at.need("");
        if wild(&at) {
            at.invalid(&format!("if '*' is present, must not specify other {what}"));
        }
    }
    rule.at("apiVersions").each(|version| version.need(""));
    resources(&rule.at("resources"));
    check::optional(&rule.at("scope"), &["*", "Cluster", "Namespaced"]);
}

fn resources(all: &FieldPath<'_>) {
    all.need("");
    let (mut wild_below, mut wild_above) = (Vec::new(), Vec::new());
    let (mut double, mut single, mut plain) = (false, false, false);
    for one in all.items() {
        let text = one.text();
        if text.is_empty() {
            one.required("");
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
            one.invalid(&detail);
        }
        if wild_above.contains(&below) {
            let detail = format!("if '*/{below}' is present, must not specify {text}");
            one.invalid(&detail);
        }
        if below == "*" {
            wild_below.push(resource);
        }
        if resource == "*" {
            wild_above.push(below);
        }
    }
    if all.len() > 1 && double {
        all.invalid("if '*/*' is present, must not specify other resources");
    }
    if single && plain {
        all.invalid("if '*' is present, must not specify other resources without subresources");
    }
}

/// Checks the URL of a webhook (upstream: `ValidateWebhookURL`).
fn check_url(at: &FieldPath<'_>) {
    let (before, fragment) = at.text().split_once('#').unwrap_or((at.text(), ""));
    let url = match parsed_url(before) {
        Ok(url) => url,
        Err(why) => {
            let detail = format!("url must be a valid URL: {why}{FORM}");
            return at.required(&detail);
        }
    };
    let (_, rest) = before.split_once("//").unwrap_or(("", ""));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        at.invalid_as(&url.scheme, &detail);
    }
    if url.host.is_empty() {
        at.invalid_as(&url.host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        at.invalid_as(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        at.invalid_as(fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        at.invalid_as(&url.query, "query parameters are not permitted in the URL");
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
fn check_service(at: &FieldPath<'_>) {
    let (name, namespace) = (at.at("name"), at.at("namespace"));
    // Upstream passes name and namespace to `ValidateWebhookService` in the wrong order.
    if namespace.is_empty() {
        name.required("");
    }
    if name.is_empty() {
        namespace.required("");
    }
    check::service_port(&at.at("port"));
    let path = at.at("path");
    match path.text() {
        "" | "/" => return,
        "//" => return path.invalid("segment[0] may not be empty"),
        _ => {}
    }
    if !path.text().starts_with('/') {
        path.invalid("must start with a '/'");
    }
    let mut steps = path.text().chars();
    steps.next();
    let steps = steps.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            path.invalid(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for wrong in names::check_name(NameRule::Subdomain, step) {
            path.invalid(&format!("segment[{index}]: {wrong}"));
        }
    }
}

/// Checks the match conditions of a webhook or a policy.
pub(crate) fn conditions(all: &FieldPath<'_>, environment: &Environment) {
    all.has_too_many(MOST_CONDITIONS);
    let mut seen = HashSet::new();
    for condition in all.items() {
        let (name, expression) = (condition.at("name"), condition.at("expression"));
        let trimmed = expression.text().trim();
        if trimmed.is_empty() {
            expression.required("");
        } else if let Err(why) = environment.compile(trimmed, &[Type::Bool]) {
            expression.invalid_as(trimmed, &why);
        }
        check::required(&name, |name| {
            check::qualified(name);
            name.unique(&mut seen);
        });
    }
}
