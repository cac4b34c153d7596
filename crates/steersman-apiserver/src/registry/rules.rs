//! Machine: the most important of the built-in kinds' own validation rules.

use base64::Engine as _;
use serde_json::Value;

use crate::patch::parse_json;
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
        ("", "ConfigMap") => {
            config_map(object, &mut errors);
            immutable(object, old, &["data", "binaryData"], &mut errors);
        }
        ("", "Secret") => {
            immutable(object, old, &["data"], &mut errors);
            secret(object, &mut errors);
            if let Some(old) = old
                && old["type"] != object["type"]
            {
                let value = object["type"].to_string();
                errors.push(FieldError::invalid("type", &value, "field is immutable"));
            }
        }
        ("", "Pod") => {
            containers(&object["spec"], "spec", &mut errors);
            errors.extend(old.map_or_else(Vec::new, |old| pod_update::check(object, old)));
        }
        ("coordination.k8s.io", "Lease") => lease(&object["spec"], &mut errors),
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

fn lease(spec: &Value, errors: &mut Vec<FieldError>) {
    for (field, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if let Some(found) = spec[field].as_i64().filter(|found| *found < least) {
            let field = format!("spec.{field}");
            errors.push(FieldError::invalid(field, &found.to_string(), detail));
        }
    }
}

/// The keys that the well-known types of a Secret need.
fn secret(object: &Value, errors: &mut Vec<FieldError>) {
    let data = &object["data"];
    let mut need = |keys: &[&str], any: bool| {
        let absent: Vec<_> = keys
            .iter()
            .filter(|key| data.get(**key).is_none())
            .collect();
        if !any || absent.len() == keys.len() {
            errors.extend(
                absent
                    .into_iter()
                    .map(|key| FieldError::required(format!("data[{key}]"), "")),
            );
        }
    };
    let json = match object["type"].as_str().unwrap_or_default() {
        "kubernetes.io/tls" => return need(&["tls.crt", "tls.key"], false),
        "kubernetes.io/ssh-auth" => return need(&["ssh-privatekey"], false),
        "kubernetes.io/basic-auth" => return need(&["username", "password"], true),
        "kubernetes.io/dockercfg" => ".dockercfg",
        "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
        _ => return,
    };
    need(&[json], false);
    let text = data[json].as_str().unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    if let (false, Err(why)) = (text.is_empty(), parse_json(&decoded.unwrap_or_default())) {
        let value = "\"<secret contents redacted>\"";
        errors.push(FieldError::invalid(format!("data[{json}]"), value, &why));
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
        ("", "Namespace") => {
            let phase = object["status"]["phase"].as_str().unwrap_or_default();
            let terminating = !object["metadata"]["deletionTimestamp"].is_null();
            let (wanted, is) = if terminating {
                ("Terminating", "is not empty")
            } else {
                ("Active", "is empty")
            };
            if phase != wanted {
                let detail = format!("may only be '{wanted}' if `deletionTimestamp` {is}");
                let value = Value::String(phase.to_owned()).to_string();
                errors.push(FieldError::invalid("status.Phase", &value, &detail));
            }
        }
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

fn config_map(object: &Value, errors: &mut Vec<FieldError>) {
    const RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut size = 0;
    for part in ["data", "binaryData"] {
        let Some(members) = object[part].as_object() else {
            continue;
        };
        for (key, value) in members {
            size += value.as_str().unwrap_or_default().len();
            let quoted = Value::String(key.clone()).to_string();
            let field = format!("{part}[{key}]");
            let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
            if key.is_empty() || !key.bytes().all(legal) {
                errors.push(FieldError::invalid(&field, &quoted, RULE));
            } else if key == "." || key == ".." {
                errors.push(FieldError::invalid(
                    &field,
                    &quoted,
                    &format!("must not be '{key}'"),
                ));
            }
            if part == "data" && object["binaryData"].get(key).is_some() {
                let detail = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(&field, &quoted, detail));
            }
        }
    }
    if size > 1024 * 1024 {
        errors.push(FieldError::too_long(
            "[]",
            "may not be more than 1048576 bytes",
        ));
    }
}

fn immutable(object: &Value, old: Option<&Value>, parts: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let detail = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for part in parts {
        if object[*part] != old[*part] {
            errors.push(FieldError::forbidden(*part, detail));
        }
    }
}
