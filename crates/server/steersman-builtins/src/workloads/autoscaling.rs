//! Machine: converts HorizontalPodAutoscalers between autoscaling/v2, the stored version, and autoscaling/v1.
//!
//! The fields that v1 lacks travel in annotations of the v1 object, as in
//! `pkg/apis/autoscaling/v1/conversion.go` of Kubernetes.

use serde_json::{Map, Value, json};

use steersman_schema::resource::Resource;

use crate::fields::fill::elements;

/// The annotation of a v1 object with all metrics except the CPU utilization, as JSON.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The annotation of a v1 object with the current metrics of the status, as JSON.
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The annotation of a v1 object with the conditions of the status, as JSON.
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The annotation of a v1 object with the scaling behavior, as JSON.
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The fields of a scaling behavior and of the structs in it, each struct in the order of its Go type.
const BEHAVIOR_FIELDS: &[&str] = &[
    "scaleUp", "scaleDown", "stabilizationWindowSeconds", "selectPolicy", "policies", "type",
    "value", "periodSeconds", "tolerance",
];

/// For each field of a metric source its name in v1 and its path in v2.
type SourceFields = &'static [(&'static str, &'static str)];

/// The metric sources, each with its fields in the order in which v1 writes them.
const SOURCES: &[(&str, SourceFields)] = &[
    (
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("targetValue", "target.value"),
            ("selector", "metric.selector"),
            ("averageValue", "target.averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name"),
            ("targetAverageValue", "target.averageValue"),
            ("selector", "metric.selector"),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name"),
            ("targetAverageUtilization", "target.averageUtilization"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name"),
            ("targetAverageUtilization", "target.averageUtilization"),
            ("targetAverageValue", "target.averageValue"),
            ("container", "container"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("targetValue", "target.value"),
            ("targetAverageValue", "target.averageValue"),
        ],
    ),
];

/// Returns the fields of a source in the spec or, with `status`, of a current metric.
fn fields(fields: SourceFields, status: bool) -> impl Iterator<Item = (String, Vec<String>)> {
    fields.iter().map(move |(name, path)| {
        let of = |text: &str| {
            if status && path.starts_with("target.") {
                text.replacen("target", "current", 1)
            } else {
                text.to_owned()
            }
        };
        (of(name), of(path).split('.').map(str::to_owned).collect())
    })
}

/// Returns whether the resource is autoscaling/v1. Its objects are converted from the stored v2.
pub fn is_older(resource: &Resource) -> bool {
    resource.built_in && resource.group == "autoscaling" && resource.version == "v1"
}

fn members<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let parent = value.as_object_mut()?;
    let member = parent.entry(name).or_insert_with(|| json!({}));
    member.as_object_mut()
}

/// Returns whether a v2 metric is the CPU utilization, for which v1 has a field.
fn is_processor(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && !metric["resource"]["target"]["averageUtilization"].is_null()
}

/// Converts a v2 metric to v1, as JSON text with the fields in the order of the Go struct.
fn metric_to_v1(metric: &Value, status: bool) -> String {
    let mut text = format!("{{\"type\":{}", metric["type"]);
    for (source, names) in SOURCES {
        let given = &metric[*source];
        if !given.is_object() {
            continue;
        }
        let written: Vec<String> = fields(names, status)
            .map(|(name, path)| (name, path.iter().fold(given, |value, key| &value[key])))
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        text.push_str(&format!(",\"{source}\":{{{}}}", written.join(",")));
    }
    text.push('}');
    text
}

/// Converts a v1 metric to v2. `status` selects a current metric instead of a metric of the spec.
fn metric_to_v2(metric: &Value, status: bool) -> Value {
    let mut made = json!({ "type": metric["type"] });
    for (source, names) in SOURCES {
        let given = &metric[*source];
        if !given.is_object() {
            continue;
        }
        let mut built = json!({});
        for (name, path) in fields(names, status) {
            if !given[&name].is_null() {
                let member = path.iter().fold(&mut built, |value, key| &mut value[key]);
                *member = given[&name].clone();
            }
        }
        if !status {
            let target = &built["target"];
            let kind = if !target["averageUtilization"].is_null() {
                "Utilization"
            } else if !target["averageValue"].is_null() {
                "AverageValue"
            } else {
                "Value"
            };
            built["target"]["type"] = json!(kind);
        }
        made[*source] = built;
    }
    made
}

/// Converts a stored v2 autoscaler to v1.
#[must_use]
pub fn to_v1(stored: &Value) -> Value {
    let mut shown = stored.clone();
    shown["apiVersion"] = json!("autoscaling/v1");
    let mut annotated: Vec<(&str, String)> = Vec::new();
    let metrics = elements(&stored["spec"]["metrics"]);
    let mut annotate = |name: &'static str, texts: Vec<String>| {
        if !texts.is_empty() {
            annotated.push((name, format!("[{}]", texts.join(","))));
        }
    };
    let others = metrics.iter().filter(|metric| !is_processor(metric));
    let others = others.map(|metric| metric_to_v1(metric, false));
    annotate(METRICS, others.collect());
    let current = elements(&stored["status"]["currentMetrics"]);
    let texts = current.iter().map(|metric| metric_to_v1(metric, true));
    annotate(CURRENT, texts.collect());
    let conditions = elements(&stored["status"]["conditions"]).iter();
    let fields = ["type", "status", "lastTransitionTime", "reason", "message"];
    let texts = conditions.map(|condition| ordered(condition, &fields));
    annotate(CONDITIONS, texts.collect());
    if stored["spec"]["behavior"].is_object() {
        let text = ordered(&stored["spec"]["behavior"], BEHAVIOR_FIELDS);
        annotated.push((BEHAVIOR, text));
    }
    if let Some(spec) = members(&mut shown, "spec") {
        spec.remove("metrics");
        spec.remove("behavior");
        if let Some(metric) = metrics.iter().find(|metric| is_processor(metric)) {
            let wanted = metric["resource"]["target"]["averageUtilization"].clone();
            spec.insert("targetCPUUtilizationPercentage".to_owned(), wanted);
        }
    }
    if let Some(status) = members(&mut shown, "status") {
        status.remove("currentMetrics");
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(json!(0));
        status.entry("desiredReplicas").or_insert(json!(0));
        let processor = current
            .iter()
            .find(|metric| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu");
        let used = processor.map(|metric| &metric["resource"]["current"]["averageUtilization"]);
        if let Some(used) = used.filter(|used| !used.is_null()) {
            status.insert("currentCPUUtilizationPercentage".to_owned(), used.clone());
        }
    }
    if !annotated.is_empty()
        && let Some(metadata) = shown.get_mut("metadata")
        && let Some(annotations) = members(metadata, "annotations")
    {
        for (name, text) in annotated {
            annotations.insert(name.to_owned(), Value::String(text));
        }
    }
    shown
}

/// Returns a value as JSON text. An object in it has only the named members, in the order of `names`.
fn ordered(value: &Value, names: &[&str]) -> String {
    match value {
        Value::Object(members) => {
            let member = |name: &&str| {
                let value = ordered(members.get(*name)?, names);
                Some(format!("\"{name}\":{value}"))
            };
            let texts: Vec<String> = names.iter().filter_map(member).collect();
            format!("{{{}}}", texts.join(","))
        }
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(|item| ordered(item, names)).collect();
            format!("[{}]", texts.join(","))
        }
        other => other.to_string(),
    }
}

/// Converts a v1 autoscaler to the stored v2. Its four annotations are removed, and ignored if they are no valid JSON.
#[must_use]
pub fn to_v2(shown: &Value) -> Value {
    let mut stored = shown.clone();
    stored["apiVersion"] = json!("autoscaling/v2");
    let note = |name: &str| -> Value {
        let text = shown["metadata"]["annotations"][name].as_str();
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    };
    let mut metrics = Vec::new();
    let wanted = &shown["spec"]["targetCPUUtilizationPercentage"];
    if !wanted.is_null() {
        metrics.push(processor(wanted));
    }
    let others = note(METRICS);
    metrics.extend(
        elements(&others)
            .iter()
            .map(|metric| metric_to_v2(metric, false)),
    );
    if metrics.is_empty() {
        metrics.push(processor(&json!(80)));
    }
    let behavior = note(BEHAVIOR);
    if let Some(spec) = members(&mut stored, "spec") {
        spec.remove("targetCPUUtilizationPercentage");
        spec.insert("metrics".to_owned(), Value::Array(metrics));
        if behavior.is_object() {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    let (current, conditions) = (note(CURRENT), note(CONDITIONS));
    if let Some(status) = members(&mut stored, "status") {
        let used = status.remove("currentCPUUtilizationPercentage");
        let mut metrics: Vec<Value> = elements(&current)
            .iter()
            .map(|metric| metric_to_v2(metric, true))
            .collect();
        if let (true, Some(used)) = (metrics.is_empty(), used.filter(Value::is_number)) {
            metrics.push(json!({"type": "Resource", "resource": {"name": "cpu",
                "current": {"averageUtilization": used}}}));
        }
        let metrics = (!metrics.is_empty()).then_some(metrics);
        status.insert("currentMetrics".to_owned(), metrics.into());
        if conditions.is_array() {
            status.insert("conditions".to_owned(), conditions);
        }
        if status.get("currentReplicas").is_some_and(|n| *n == 0) {
            status.remove("currentReplicas");
        }
    }
    drop_annotations(&mut stored);
    stored
}

/// Removes the four annotations, which an object of the stored version never has.
pub(crate) fn drop_annotations(autoscaler: &mut Value) {
    if let Some(metadata) = members(autoscaler, "metadata")
        && let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
    {
        for name in [METRICS, CURRENT, CONDITIONS, BEHAVIOR] {
            annotations.remove(name);
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Returns the v2 metric for a target CPU utilization, in per cent.
pub(crate) fn processor(utilization: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": utilization}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_v1_lacks_survive_in_annotations() {
        let stored = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Pods", "pods": {"metric": {"name": "m"},
                    "target": {"type": "AverageValue", "averageValue": "10"}}}],
                "behavior": {"scaleUp": {"policies":
                    [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}},
            "status": {"desiredReplicas": 0, "currentMetrics": null}});
        let shown = to_v1(&stored);
        assert_eq!(
            shown["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50})
        );
        assert_eq!(
            shown["status"],
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        );
        assert_eq!(
            shown["metadata"]["annotations"],
            json!({
                METRICS: r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"10"}}]"#,
                BEHAVIOR: r#"{"scaleUp":{"policies":[{"type":"Pods","value":4,"periodSeconds":60}]}}"#,
            })
        );
        assert_eq!(to_v2(&shown), stored);
    }

    #[test]
    fn an_autoscaler_without_metrics_gets_the_cpu_metric() {
        let made = to_v2(&json!({"metadata": {"annotations": {METRICS: "no json"}}, "spec": {}}));
        assert_eq!(made["spec"]["metrics"], json!([processor(&json!(80))]));
        assert_eq!(made["metadata"], json!({}));
    }
}
