//! Machine: the most important of the built-in kinds' own validation rules.

use serde_json::Value;

use crate::schema::Resource;
use crate::status::FieldError;

/// Checks what lies outside the metadata.
pub(crate) fn check(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload(object, old, &mut errors);
        }
        ("", "ConfigMap") => {
            config_map(object, &mut errors);
            immutable(object, old, &["data", "binaryData"], &mut errors);
        }
        ("", "Secret") => {
            immutable(object, old, &["data"], &mut errors);
            if let Some(old) = old
                && old["type"] != object["type"]
            {
                let value = object["type"].to_string();
                errors.push(FieldError::invalid("type", &value, "field is immutable"));
            }
        }
        ("", "Pod") => containers(&object["spec"], "spec", &mut errors),
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
    if spec["selector"].is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if let Some(wanted) = spec["selector"]["matchLabels"].as_object() {
        let labels = &spec["template"]["metadata"]["labels"];
        if wanted
            .iter()
            .any(|(key, value)| labels[key.as_str()] != *value)
        {
            let detail = "`selector` does not match template `labels`";
            let field = "spec.template.metadata.labels";
            errors.push(FieldError::invalid(field, &labels.to_string(), detail));
        }
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
