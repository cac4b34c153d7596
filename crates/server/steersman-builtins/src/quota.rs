//! Machine: LimitRanges and ResourceQuotas (upstream: `pkg/apis/core/validation`).

use serde_json::{Map, Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{list, part, put, set};

pub(super) const LIMIT_RANGE: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            set(spec, "limits", Value::Null);
            for limit in list(spec, "limits") {
                limit_defaults(limit);
            }
        }
    },
    validate: limit_range,
    ..Strategy::PLAIN
};

pub(super) const RESOURCE_QUOTA: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
    },
    validate: quota,
    validate_status: |object, _| {
        let mut errors = Errors::default();
        let status = FieldPath::root(object).at("status");
        amounts(&status.at("hard"), &mut errors);
        amounts(&status.at("used"), &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

/// Quota names of compute resources.
pub const COMPUTE: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Resources that a quota counts in objects.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// Returns the quantity of a field, if it is one.
pub(super) fn amount(at: &FieldPath<'_>) -> Option<Quantity> {
    match at.value() {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

fn is_huge_pages(name: &str) -> bool {
    let name = name.strip_prefix("requests.").unwrap_or(name);
    name.starts_with("hugepages-")
}

/// Returns whether a resource with a domain prefix is an extended resource, which nodes announce
/// themselves.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native
        && !name.starts_with("requests.")
        && names::check_key(&format!("requests.{name}")).is_empty()
}

/// Checks the quantity of a resource (upstream: `ValidateResourceQuantityValue`).
pub(super) fn check_amount(name: &str, at: &FieldPath<'_>, errors: &mut Errors) {
    let Some(amount) = amount(at) else {
        return;
    };
    if amount.sign() < 0 {
        errors.invalid(at, "must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !amount.is_whole() {
        errors.invalid(at, "must be an integer");
    }
}

/// Checks the name of a resource (upstream: `validateResourceName`). Returns whether the name is
/// valid.
fn check_resource(name: &str, at: &FieldPath<'_>, errors: &mut Errors) -> bool {
    let shown = json!(name);
    let wrong = names::check_key(name);
    for detail in &wrong {
        errors.invalid_as(at, &shown, detail);
    }
    if !wrong.is_empty() {
        return false;
    }
    let standard = COMPUTE.contains(&name)
        || COUNTED.contains(&name)
        || matches!(name, "storage" | "requests.storage")
        || is_huge_pages(name);
    if !name.contains('/') && !standard {
        let detail = "must be a standard resource type or fully qualified";
        errors.invalid_as(at, &shown, detail);
        return false;
    }
    true
}

fn is_quota_resource(name: &str) -> bool {
    COMPUTE.contains(&name)
        || COUNTED.contains(&name)
        || name == "requests.storage"
        || is_huge_pages(name)
}

fn amounts(all: &FieldPath<'_>, errors: &mut Errors) {
    for (name, at) in all.entries() {
        check_resource(name, &at, errors);
        if !name.contains('/') && !is_quota_resource(name) {
            let detail = "must be a standard resource for quota";
            errors.invalid_as(&at, &json!(name), detail);
        }
        check_amount(name, &at, errors);
    }
}

fn quota(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    amounts(&spec.at("hard"), &mut errors);
    check_scopes(&spec, &mut errors);
    check_selector(&spec, &mut errors);
    if let Some(old) = old {
        let scopes = spec.at("scopes");
        let sorted = |value: &Value| {
            let listed = value.as_array().into_iter().flatten();
            let mut all: Vec<String> = listed.map(Value::to_string).collect();
            all.sort();
            all.dedup();
            all
        };
        if sorted(&old["spec"]["scopes"]) != sorted(scopes.value()) {
            errors.invalid(&scopes, check::IMMUTABLE);
        }
    }
    errors
}

/// Returns whether a quota with this scope can restrict a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => resource == "pods" || COMPUTE.contains(&resource),
    }
}

fn conflicts(seen: &[&str]) -> usize {
    [
        ("BestEffort", "NotBestEffort"),
        ("Terminating", "NotTerminating"),
    ]
    .iter()
    .filter(|(one, other)| seen.contains(one) && seen.contains(other))
    .count()
}

fn check_scopes(spec: &FieldPath<'_>, errors: &mut Errors) {
    let scopes = spec.at("scopes");
    let mut seen = Vec::new();
    for scope in scopes.items() {
        if !SCOPES.contains(&scope.text()) {
            errors.invalid(&scopes, "unsupported scope");
        }
        for (resource, _) in spec.at("hard").entries() {
            if is_quota_resource(resource) && !fits(scope.text(), resource) {
                errors.invalid(&scopes, "unsupported scope applied to resource");
            }
        }
        seen.push(scope.text());
    }
    for _ in 0..conflicts(&seen) {
        errors.invalid(&scopes, "conflicting scopes");
    }
}

fn check_selector(spec: &FieldPath<'_>, errors: &mut Errors) {
    let at = spec.down("scopeSelector.matchExpressions");
    let mut seen = Vec::new();
    for expression in at.items() {
        let named = |name: &'static str| at.named(name, expression.value().get(name));
        let (scope, operator, values) = (named("scopeName"), named("operator"), named("values"));
        if !SCOPES.contains(&scope.text()) {
            errors.invalid_text(&scope, "unsupported scope");
        }
        for (resource, _) in spec.at("hard").entries() {
            if is_quota_resource(resource) && !fits(scope.text(), resource) {
                let selector = spec.at("scopeSelector");
                let detail = "unsupported scope applied to resource";
                errors.invalid_as(&at, selector.value(), detail);
            }
        }
        let plain = matches!(
            scope.text(),
            "BestEffort"
                | "NotBestEffort"
                | "Terminating"
                | "NotTerminating"
                | "CrossNamespacePodAffinity"
        );
        if plain && operator.text() != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid_text(&operator, detail);
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&values, detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&values, detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid_text(&operator, "not a valid selector operator"),
        }
        seen.push(scope.text());
    }
    for _ in 0..conflicts(&seen) {
        let scopes = spec.at("scopes");
        let at = FieldPath::new(at.path(), scopes.value());
        errors.invalid(&at, "conflicting scopes");
    }
}

/// Derives the default limits and requests of containers from `max` and `min` (upstream:
/// `SetDefaults_LimitRangeItem`).
fn limit_defaults(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    let map = |limit: &Value, name: &str| limit[name].as_object().cloned().unwrap_or_default();
    let fill = |into: &mut Map<String, Value>, from: &Map<String, Value>| {
        for (name, value) in from {
            into.entry(name).or_insert_with(|| value.clone());
        }
    };
    let (mut default, mut request) = (map(limit, "default"), map(limit, "defaultRequest"));
    fill(&mut default, &map(limit, "max"));
    fill(&mut request, &default);
    fill(&mut request, &map(limit, "min"));
    for (name, value) in [("default", default), ("defaultRequest", request)] {
        if !value.is_empty() {
            put(limit, name, Value::Object(value));
        }
    }
}

fn limit_range(object: &Value, _old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let mut seen = Vec::new();
    for limit in FieldPath::root(object).down("spec.limits").items() {
        let kind = limit.at("type");
        let before = errors.len();
        check::qualified(&kind, &mut errors);
        let standard = ["Pod", "Container", "PersistentVolumeClaim"];
        if errors.len() == before && !kind.text().contains('/') && !standard.contains(&kind.text())
        {
            let detail = "must be a standard limit type or fully qualified";
            errors.invalid_text(&kind, detail);
        }
        if seen.contains(&kind.text()) {
            errors.duplicate(&kind);
        }
        seen.push(kind.text());
        check_limit(&limit, &mut errors);
    }
    errors
}

fn check_limit(limit: &FieldPath<'_>, errors: &mut Errors) {
    let kind = limit.at("type").text();
    let mut keys: Vec<&str> = Vec::new();
    for part in ["max", "min", "default", "defaultRequest"] {
        let all = limit.at(part);
        if kind == "Pod" && part.starts_with("default") {
            if !all.is_empty() {
                errors.forbidden(&all, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, at) in all.entries() {
            limit_resource(kind, name, &at, errors);
            keys.push(name);
        }
    }
    let stored = ["min", "max"].map(|part| limit.at(part).key("storage").is_set());
    if kind == "PersistentVolumeClaim" && stored == [false, false] {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&limit.at("limits"), detail);
    }
    for (name, at) in limit.at("maxLimitRequestRatio").entries() {
        limit_resource(kind, name, &at, errors);
        keys.push(name);
    }
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        compare(limit, key, errors);
    }
}

fn limit_resource(kind: &str, name: &str, at: &FieldPath<'_>, errors: &mut Errors) {
    if check_resource(name, at, errors)
        && matches!(kind, "Pod" | "Container")
        && !name.contains('/')
        && !matches!(name, "cpu" | "memory" | "ephemeral-storage")
        && !is_huge_pages(name)
    {
        let detail = "must be a standard resource for containers";
        errors.invalid_as(at, &json!(name), detail);
    }
}

/// Checks that the limits of one resource fit each other.
fn compare(limit: &FieldPath<'_>, key: &str, errors: &mut Errors) {
    let skip = limit.at("type").text() == "Pod";
    let of = |part: &str| {
        let at = limit.at(part).key(key);
        let amount = amount(&at).filter(|_| !(skip && part.starts_with("default")))?;
        let text = at.value().as_str().map(str::to_owned);
        Some((amount, text.unwrap_or_else(|| at.value().to_string())))
    };
    let mut refuse = |part: &str, shown: &str, detail: &str| {
        let at = limit.at(part).key(key);
        errors.invalid_as(&at, &json!(shown), detail);
    };
    let (min, max) = (of("min"), of("max"));
    let (default, request) = (of("default"), of("defaultRequest"));
    if let (Some(min), Some(max)) = (&min, &max)
        && min.0 > max.0
    {
        let detail = format!("min value {} is greater than max value {}", min.1, max.1);
        refuse("min", &min.1, &detail);
    }
    if let Some(request) = &request {
        for (bound, name, over) in [
            (&min, "min value", false),
            (&max, "max value", true),
            (&default, "default limit value", true),
        ] {
            let Some(bound) = bound else { continue };
            if over && request.0 > bound.0 {
                let detail = format!(
                    "default request value {} is greater than {name} {}",
                    request.1, bound.1
                );
                refuse("defaultRequest", &request.1, &detail);
            } else if !over && bound.0 > request.0 {
                let detail = format!(
                    "{name} {} is greater than default request value {}",
                    bound.1, request.1
                );
                refuse("defaultRequest", &request.1, &detail);
            }
        }
    }
    if let Some(default) = &default {
        if let Some(min) = min.as_ref().filter(|min| min.0 > default.0) {
            let detail = format!(
                "min value {} is greater than default value {}",
                min.1, default.1
            );
            refuse("default", &min.1, &detail);
        }
        if let Some(max) = max.as_ref().filter(|max| default.0 > max.0) {
            let detail = format!(
                "default value {} is greater than max value {}",
                default.1, max.1
            );
            refuse("default", &max.1, &detail);
        }
    }
    if let Some(ratio) = of("maxLimitRequestRatio") {
        for detail in wrong_ratio(&ratio, min.as_ref(), max.as_ref()) {
            refuse("maxLimitRequestRatio", &ratio.1, &detail);
        }
    }
    // A resource that cannot be overcommitted has equal requests and limits.
    let overcommits = (!key.contains('/') || key.contains("kubernetes.io/")) && !is_huge_pages(key);
    if let (false, Some(default), Some(request)) = (overcommits, &default, &request)
        && default.0 != request.0
    {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {key}",
            default.1, request.1
        );
        refuse("defaultRequest", &request.1, &detail);
    }
}

/// A quantity and its text.
type Amount = (Quantity, String);

/// Returns the error of a `maxLimitRequestRatio` that does not fit the other limits.
fn wrong_ratio(ratio: &Amount, min: Option<&Amount>, max: Option<&Amount>) -> Vec<String> {
    let mut wrong = Vec::new();
    if ratio.0 < Quantity::of(1) {
        wrong.push(format!("ratio {} is less than 1", ratio.1));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let most = max.0.approximate() / min.0.approximate();
        if ratio.0.approximate() > most {
            wrong.push(format!(
                "ratio {} is greater than max/min = {most:.6}",
                ratio.1
            ));
        }
    }
    wrong
}
