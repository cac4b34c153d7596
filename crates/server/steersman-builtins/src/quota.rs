//! Machine: LimitRanges and ResourceQuotas (upstream: `pkg/apis/core/validation`).

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::Strategy;
use crate::fields::fill::{elements, list, part, put, set, with_spec};
use crate::fields::{FieldPath, check};

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
    defaults: with_spec,
    validate: quota,
    validate_status: |object, _| {
        let status = object.at("status");
        amounts(&status.at("hard"));
        amounts(&status.at("used"));
    },
    ..Strategy::PLAIN
};

/// Quota names of compute resources.
pub const COMPUTE: &[&str] = &[
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
];

/// Resources that a quota counts in objects.
const COUNTED: &[&str] = &[
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
];

const SCOPES: &[&str] = &[
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass",
    "CrossNamespacePodAffinity", "VolumeAttributesClass",
];

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

/// Returns whether the resource name has no domain prefix, or one of Kubernetes.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether a resource is extended: a node announces it under its own domain.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::check_key(&format!("requests.{name}")).is_empty()
}

/// Checks the quantity of a resource (upstream: `ValidateResourceQuantityValue`).
pub(super) fn check_amount(name: &str, at: &FieldPath<'_>) {
    let Some(amount) = amount(at) else {
        return;
    };
    if amount.sign() < 0 {
        at.invalid("must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !amount.is_whole() {
        at.invalid("must be an integer");
    }
}

/// Checks the name of a resource (upstream: `validateResourceName`). Returns whether it is valid.
fn check_resource(name: &str, at: &FieldPath<'_>) -> bool {
    at.passes(|at| {
        let wrong = names::check_key(name);
        if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
            at.invalid_as(name, "must be a standard resource type or fully qualified");
        }
        at.invalid_each(name, wrong);
    })
}

/// Returns whether a resource without a domain prefix is one of Kubernetes.
pub(crate) fn is_standard(name: &str) -> bool {
    name == "storage" || is_quota_resource(name)
}

fn is_quota_resource(name: &str) -> bool {
    COMPUTE.contains(&name)
        || COUNTED.contains(&name)
        || name == "requests.storage"
        || is_huge_pages(name)
}

fn amounts(all: &FieldPath<'_>) {
    for (name, at) in all.entries() {
        check_resource(name, &at);
        if !name.contains('/') && !is_quota_resource(name) {
            at.invalid_as(name, "must be a standard resource for quota");
        }
        check_amount(name, &at);
    }
}

fn quota(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    amounts(&spec.at("hard"));
    check_scopes(&spec);
    check_selector(&spec);
    if let Some(old) = old {
        let scopes = spec.at("scopes");
        let set = |value: &Value| -> BTreeSet<String> {
            elements(value).iter().map(Value::to_string).collect()
        };
        if set(&old["spec"]["scopes"]) != set(scopes.value()) {
            scopes.invalid(check::IMMUTABLE);
        }
    }
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

/// Returns the number of pairs of a scope and its opposite.
fn conflicts(seen: &[&str]) -> usize {
    let both = |one, other| usize::from(seen.contains(&one) && seen.contains(&other));
    both("BestEffort", "NotBestEffort") + both("Terminating", "NotTerminating")
}

fn check_scopes(spec: &FieldPath<'_>) {
    let scopes = spec.at("scopes");
    let mut seen = Vec::new();
    for scope in scopes.items() {
        if !SCOPES.contains(&scope.text()) {
            scopes.invalid("unsupported scope");
        }
        for (resource, _) in spec.at("hard").entries() {
            if is_quota_resource(resource) && !fits(scope.text(), resource) {
                scopes.invalid("unsupported scope applied to resource");
            }
        }
        seen.push(scope.text());
    }
    for _ in 0..conflicts(&seen) {
        scopes.invalid("conflicting scopes");
    }
}

fn check_selector(spec: &FieldPath<'_>) {
    let at = spec.down("scopeSelector.matchExpressions");
    let mut seen = Vec::new();
    for expression in at.items() {
        let named = |name: &'static str| at.named(name, expression.value().get(name));
        let (scope, operator, values) = (named("scopeName"), named("operator"), named("values"));
        if !SCOPES.contains(&scope.text()) {
            scope.invalid_text("unsupported scope");
        }
        for (resource, _) in spec.at("hard").entries() {
            if is_quota_resource(resource) && !fits(scope.text(), resource) {
                let selector = spec.at("scopeSelector");
                at.invalid_as(selector.value(), "unsupported scope applied to resource");
            }
        }
        let takes_values = matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass");
        let only_exists = SCOPES.contains(&scope.text()) && !takes_values;
        if only_exists && operator.text() != "Exists" {
            operator.invalid_text("must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                values.required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => operator.invalid_text("not a valid selector operator"),
        }
        seen.push(scope.text());
    }
    for _ in 0..conflicts(&seen) {
        at.invalid_as(spec.at("scopes").value(), "conflicting scopes");
    }
}

/// Derives the defaults of containers (upstream: `SetDefaults_LimitRangeItem`).
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

fn limit_range(object: &FieldPath<'_>, _old: Option<&Value>) {
    let mut seen = HashSet::new();
    for limit in object.down("spec.limits").items() {
        let kind = limit.at("type");
        let is_qualified = kind.passes(check::qualified);
        let standard = ["Pod", "Container", "PersistentVolumeClaim"];
        if is_qualified && !kind.text().contains('/') && !standard.contains(&kind.text()) {
            kind.invalid_text("must be a standard limit type or fully qualified");
        }
        kind.unique(&mut seen);
        check_limit(&limit);
    }
}

fn check_limit(limit: &FieldPath<'_>) {
    let kind = limit.at("type").text();
    let mut keys: Vec<&str> = Vec::new();
    for part in ["max", "min", "default", "defaultRequest"] {
        let all = limit.at(part);
        if kind == "Pod" && part.starts_with("default") {
            all.deny_filled("may not be specified when `type` is 'Pod'");
            continue;
        }
        for (name, at) in all.entries() {
            limit_resource(kind, name, &at);
            keys.push(name);
        }
    }
    let stored = ["min", "max"].map(|part| limit.at(part).key("storage").is_set());
    if kind == "PersistentVolumeClaim" && stored == [false, false] {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        limit.at("limits").required(detail);
    }
    for (name, at) in limit.at("maxLimitRequestRatio").entries() {
        limit_resource(kind, name, &at);
        keys.push(name);
    }
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        compare(limit, key);
    }
}

fn limit_resource(kind: &str, name: &str, at: &FieldPath<'_>) {
    if check_resource(name, at)
        && matches!(kind, "Pod" | "Container")
        && !name.contains('/')
        && !matches!(name, "cpu" | "memory" | "ephemeral-storage")
        && !is_huge_pages(name)
    {
        at.invalid_as(name, "must be a standard resource for containers");
    }
}

type Amount = (Quantity, String);

/// Checks that the limits of one resource fit each other.
fn compare(limit: &FieldPath<'_>, key: &str) {
    const REQUEST: &str = "defaultRequest";
    let skip = limit.at("type").text() == "Pod";
    let of = |part: &str| -> Option<Amount> {
        let at = limit.at(part).key(key);
        let amount = amount(&at).filter(|_| !(skip && part.starts_with("default")))?;
        let text = at.value().as_str().map(str::to_owned);
        Some((amount, text.unwrap_or_else(|| at.value().to_string())))
    };
    let refuse = |part: &str, shown: &Amount, detail: &str| {
        limit.at(part).key(key).invalid_as(&shown.1, detail);
    };
    let name = |part: &str, other: &str| match part {
        "min" => "min value",
        "max" => "max value",
        REQUEST => "default request value",
        _ if other == REQUEST => "default limit value",
        _ => "default value",
    };
    for (lower, upper, part, shown) in [
        ("min", "max", "min", "min"),
        ("min", REQUEST, REQUEST, REQUEST),
        (REQUEST, "max", REQUEST, REQUEST),
        (REQUEST, "default", REQUEST, REQUEST),
        ("min", "default", "default", "min"),
        ("default", "max", "default", "default"),
    ] {
        if let (Some(least), Some(most), Some(shown)) = (of(lower), of(upper), of(shown))
            && least.0 > most.0
        {
            let (lower_name, upper_name) = (name(lower, upper), name(upper, lower));
            let (least, most) = (least.1, most.1);
            let detail = format!("{lower_name} {least} is greater than {upper_name} {most}");
            refuse(part, &shown, &detail);
        }
    }
    let (min, max) = (of("min"), of("max"));
    let (default, request) = (of("default"), of(REQUEST));
    if let Some(ratio) = of("maxLimitRequestRatio") {
        if ratio.0 < Quantity::of(1) {
            let detail = format!("ratio {} is less than 1", ratio.1);
            refuse("maxLimitRequestRatio", &ratio, &detail);
        }
        if let (Some(min), Some(max)) = (&min, &max) {
            let most = max.0.approximate() / min.0.approximate();
            if ratio.0.approximate() > most {
                let detail = format!("ratio {} is greater than max/min = {most:.6}", ratio.1);
                refuse("maxLimitRequestRatio", &ratio, &detail);
            }
        }
    }
    // A resource that cannot be overcommitted has equal requests and limits.
    let overcommits = is_native(key) && !is_huge_pages(key);
    if let (false, Some(default), Some(request)) = (overcommits, &default, &request)
        && default.0 != request.0
    {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {key}",
            default.1, request.1
        );
        refuse(REQUEST, request, &detail);
    }
}
