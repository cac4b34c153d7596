//! Machine: the most important of the built-in kinds' own validation rules.

use serde_json::Value;

use crate::schema::{Resource, events, kinds};
use crate::status::FieldError;

use super::{pod_template, pod_update};

/// Checks what lies outside the metadata.
pub(crate) fn check(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if let Some(kind) = kinds::of(resource) {
        return kinds::validate(kind, object, old);
    }
    let mut errors = Vec::new();
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload(object, old, &mut errors);
            pod_template::check_strategy(&object["spec"]["strategy"], &mut errors);
        }
        ("", "Pod") => {
            containers(&object["spec"], "spec", &mut errors);
            errors.extend(old.map_or_else(Vec::new, |old| pod_update::check(object, old)));
        }
        ("" | "events.k8s.io", "Event") => errors.extend(events::check(resource, object, old)),
        _ => {}
    }
    errors
}

fn workload(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if let Some(replicas) = spec["replicas"].as_i64().filter(|replicas| *replicas < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            "spec.replicas",
            &replicas.to_string(),
            detail,
        ));
    }
    let none = spec["selector"].is_null();
    if none {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = spec["selector"]["matchLabels"].as_object();
    let mut wanted = wanted.into_iter().flatten();
    // No selector selects nothing, whatever the labels are.
    if none || wanted.any(|(key, value)| labels[key.as_str()] != *value) {
        let detail = "`selector` does not match template `labels`";
        let field = "spec.template.metadata.labels";
        errors.push(FieldError::invalid(field, &labels.to_string(), detail));
    }
    containers(&spec["template"]["spec"], "spec.template.spec", errors);
    if let Some(old) = old
        && old["spec"]["selector"] != spec["selector"]
    {
        let value = spec["selector"].to_string();
        errors.push(FieldError::invalid(
            "spec.selector",
            &value,
            "field is immutable",
        ));
    }
}

fn containers(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    pod_template::check_volumes(spec, path, errors);
    let listed = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if listed.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    for (index, container) in listed.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                let field = format!("{path}.containers[{index}].{field}");
                errors.push(FieldError::required(field, ""));
            }
        }
        let path = format!("{path}.containers[{index}]");
        pod_template::check_variables(container, &path, errors);
    }
}

/// Checks what a write to the status subresource of a built-in kind brings.
pub(crate) fn check_status(resource: &Resource, object: &Value, old: &Value) -> Vec<FieldError> {
    if let Some(kind) = kinds::of(resource) {
        return kinds::validate_status(kind, object, old);
    }
    let mut errors = Vec::new();
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("apps", "Deployment") => counts(
            &object["status"],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
            &["unavailableReplicas"],
            &mut errors,
        ),
        ("apps", "ReplicaSet") => counts(
            &object["status"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
            &[],
            &mut errors,
        ),
        _ => {}
    }
    errors
}

/// Numbers of Pods: none is negative, and no part is more than the whole.
fn counts(status: &Value, parts: &[&str], others: &[&str], errors: &mut Vec<FieldError>) {
    let count = |name: &str| status[name].as_i64().unwrap_or_default();
    let mut refuse = |name: &str, detail: &str| {
        let field = format!("status.{name}");
        errors.push(FieldError::invalid(field, &count(name).to_string(), detail));
    };
    for name in ["observedGeneration", "replicas"]
        .iter()
        .chain(parts)
        .chain(others)
    {
        if count(name) < 0 {
            refuse(name, "must be greater than or equal to 0");
        }
    }
    for name in parts {
        if count(name) > count("replicas") {
            refuse(name, "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        refuse("availableReplicas", "cannot be greater than readyReplicas");
    }
}
