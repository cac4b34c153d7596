//! Machine: HorizontalPodAutoscalers, `autoscaling/v1` and `v2` (upstream: `pkg/apis/autoscaling`).

use serde_json::{Value, json};
use steersman_apimachinery::names::NameRule;

use crate::Strategy;
use crate::fields::fill::{given, lacks, part, put, set, set_text};
use crate::fields::{FieldPath, check, reference};
use crate::pod::resources;
use crate::quota::amount;
use crate::workloads::autoscaling;

pub(crate) const AUTOSCALER: Strategy = Strategy {
    defaults,
    validate,
    validate_status: |object, _| {
        let counts = ["currentReplicas", "desiredReplicas"];
        check::not_negative_members(&object.at("status"), &counts);
    },
    ..Strategy::PLAIN
};

/// The types of metrics and the field of each, in the order of upstream's checks.
const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

const TYPES: &[&str] = &[
    "ContainerResource", "External", "Object", "Pods", "Resource",
];

/// Longest period of a scaling policy, in seconds.
const LONGEST_PERIOD: i64 = 1800;
/// Longest stabilization window, in seconds.
const LONGEST_WINDOW: i64 = 3600;

fn is_older(object: &Value) -> bool {
    object["apiVersion"] == "autoscaling/v1"
}

fn defaults(object: &mut Value) {
    let older = is_older(object);
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "minReplicas", json!(1));
    set(spec, "maxReplicas", json!(0));
    if let Some(target) = part(spec, "scaleTargetRef") {
        set_text(target, "kind", "");
        set_text(target, "name", "");
    }
    if older {
        if lacks(spec, "targetCPUUtilizationPercentage") {
            // Annotations affect the default, and the conversion between the versions reads them.
            let shown = autoscaling::to_v1(&autoscaling::to_v2(object));
            let wanted = shown["spec"]["targetCPUUtilizationPercentage"].clone();
            if let Some(spec) = given(object, "spec").filter(|_| !wanted.is_null()) {
                put(spec, "targetCPUUtilizationPercentage", wanted);
            }
        }
    } else {
        autoscaling::drop_annotations(object);
        let Some(spec) = given(object, "spec") else {
            return;
        };
        if lacks(spec, "metrics") {
            put(spec, "metrics", json!([autoscaling::processor(&json!(80))]));
        }
        if let Some(behavior) = given(spec, "behavior") {
            complete_behavior(behavior);
        }
    }
    if let Some(status) = part(object, "status") {
        set(status, "desiredReplicas", json!(0));
        if older {
            set(status, "currentReplicas", json!(0));
        } else {
            set(status, "currentMetrics", Value::Null);
        }
    }
}

/// Fills in `behavior` (upstream: `GenerateHPAScaleUpRules`, `GenerateHPAScaleDownRules`).
fn complete_behavior(behavior: &mut Value) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (side, policies) in [
        ("scaleUp", json!([pods, percent])),
        ("scaleDown", json!([percent])),
    ] {
        let Some(rules) = part(behavior, side) else {
            continue;
        };
        if side == "scaleUp" {
            set(rules, "stabilizationWindowSeconds", json!(0));
        }
        set(rules, "selectPolicy", json!("Max"));
        set(rules, "policies", policies);
    }
}

fn validate(object: &FieldPath<'_>, old: Option<&Value>) {
    // An object of `v1` is converted, so that both versions are checked as `v2`.
    let converted = is_older(object.value()).then(|| autoscaling::to_v2(object.value()));
    let newer = object.with(converted.as_ref().unwrap_or(object.value()));
    let spec = newer.at("spec");
    let [min, max] = spec.parts(["minReplicas", "maxReplicas"]);
    let least = match old {
        Some(old) if old["spec"]["minReplicas"] == 0 => 0,
        _ => 1,
    };
    min.if_set(|at| at.at_least(least, &format!("must be greater than or equal to {least}")));
    max.at_least(1, "must be greater than 0");
    if min.is_set() && max.int() < min.int() {
        max.invalid_as(max.int(), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.at("scaleTargetRef");
    let core = target.at("kind").text() == "ReplicationController";
    let kept = old.is_some_and(|old| {
        old["spec"]["scaleTargetRef"]["apiVersion"] == *target.at("apiVersion").value()
    });
    check_target(&target, core, kept);
    check_metrics(&spec);
    for rules in spec.at("behavior").parts(["scaleUp", "scaleDown"]) {
        rules.if_set(check_rules);
    }
}

/// Checks a reference, unless it is kept (upstream: `ValidateCrossVersionObjectReference`).
fn check_target(at: &FieldPath<'_>, core: bool, kept: bool) {
    reference::segment(&at.at("kind"));
    reference::segment(&at.at("name"));
    let version = at.at("apiVersion");
    if kept {
        return;
    }
    let (group, _) = version.text().split_once('/').unwrap_or_default();
    if check::group_version(&version) && group.is_empty() && !core {
        version.invalid_text("apiVersion must specify API group");
    }
}

fn check_metrics(spec: &FieldPath<'_>) {
    let metrics = spec.at("metrics");
    let mut outside = false;
    for metric in metrics.items() {
        check_metric(&metric);
        outside |= matches!(metric.at("type").text(), "Object" | "External");
    }
    let min = spec.at("minReplicas");
    if min.is_set() && min.int() == 0 && !outside {
        metrics.forbidden("must specify at least one Object or External metric to support scaling to zero replicas");
    }
}

fn check_metric(metric: &FieldPath<'_>) {
    let kind = metric.at("type");
    kind.need("must specify a metric source type");
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.text());
    if expected.is_none() {
        kind.not_supported(TYPES);
    }
    let present: Vec<&str> = SOURCES
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.at(field).is_set())
        .collect();
    if let Some(first) = present.first() {
        check_source(first, &metric.at(first));
    }
    match expected {
        Some((_, field)) => {
            if !present.contains(field) {
                let detail = "must populate information for the given metric source";
                metric.at(field).required(detail);
            }
        }
        None => kind.not_supported(TYPES),
    }
    if present.len() != 1 {
        let expected = expected.map(|(_, field)| *field);
        for field in present.iter().filter(|field| Some(**field) != expected) {
            let detail = "must populate the given metric source only";
            metric.at(field).forbidden(detail);
        }
    }
}

fn check_source(field: &str, at: &FieldPath<'_>) {
    let target = at.at("target");
    let has = |name: &str| target.at(name).is_set();
    match field {
        "resource" | "containerResource" => {
            let [name, container] = at.parts(["name", "container"]);
            name.need("must specify a resource name");
            if field == "containerResource" {
                name.if_filled(|name| resources::check_name(name.text(), name));
                container.need("must specify a container");
                container.if_filled(check::label);
            }
            check_amounts(&target);
            if !has("averageUtilization") && !has("averageValue") {
                let detail = "must set either a target raw value or a target utilization";
                target.at("averageUtilization").required(detail);
            }
            if has("averageUtilization") && has("averageValue") {
                let detail = "may not set both a target raw value and a target utilization";
                target.at("averageValue").forbidden(detail);
            }
            return;
        }
        "object" => check_target(&at.at("describedObject"), true, false),
        _ => {}
    }
    let name = at.down("metric.name");
    name.need("must specify a metric name");
    name.if_filled(|name| check::name(NameRule::PathSegment, name));
    check_amounts(&target);
    let average = target.at("averageValue");
    match field {
        "object" if !has("value") && !has("averageValue") => {
            average.required("must set either a target value or averageValue");
        }
        "external" => {
            if !has("value") && !has("averageValue") {
                average.required("must set either a target value for metric or a per-pod target");
            }
            if has("value") && has("averageValue") {
                let detail = "may not set both a target value for metric and a per-pod target";
                target.at("value").forbidden(detail);
            }
        }
        "pods" if !has("averageValue") => {
            average.required("must specify a positive target averageValue");
        }
        _ => {}
    }
}

fn check_amounts(target: &FieldPath<'_>) {
    let kind = target.at("type");
    kind.need("must specify a metric target type");
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid_text("must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let at = target.at(field);
        if amount(&at).is_some_and(|amount| amount.sign() <= 0) {
            at.invalid("must be positive");
        }
    }
    let utilization = target.at("averageUtilization");
    utilization.if_set(|at| at.at_least(1, "must be greater than 0"));
}

fn check_rules(rules: &FieldPath<'_>) {
    let window = rules.at("stabilizationWindowSeconds");
    window.at_least(0, "must be greater than or equal to zero");
    let detail = format!("must be less than or equal to {LONGEST_WINDOW}");
    window.at_most(LONGEST_WINDOW, &detail);
    check::optional(&rules.at("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.at("policies");
    policies.need("must specify at least one Policy");
    for policy in policies.items() {
        check::one_of(&policy.at("type"), &["Percent", "Pods"]);
        let (value, period) = (policy.at("value"), policy.at("periodSeconds"));
        for at in [&value, &period] {
            at.at_least(1, "must be greater than zero");
        }
        let detail = format!("must be less than or equal to {LONGEST_PERIOD}");
        period.at_most(LONGEST_PERIOD, &detail);
    }
    let tolerance = rules.at("tolerance");
    if amount(&tolerance).is_some_and(|amount| amount.sign() < 0) {
        tolerance.invalid("must be greater or equal to zero");
    }
}
