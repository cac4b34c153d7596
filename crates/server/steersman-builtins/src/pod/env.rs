//! Machine: checks the environment variables of containers and their sources.

use serde_json::Value;
use steersman_apimachinery::names;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

/// Fields of a Pod that an environment variable may refer to.
const FIELDS_OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a Pod that a file of a volume may refer to.
pub(super) const FIELDS_OF_FILES: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Resources that an environment variable or a file may refer to.
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const DIVISORS: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Checks the variables of a container (upstream: `ValidateEnv`).
pub(super) fn check(variables: &FieldPath<'_>, errors: &mut Errors) {
    for variable in variables.items() {
        let name = variable.at("name");
        check::required(&name, check::variable_name, errors);
        check_source(&variable, errors);
    }
}

fn check_source(variable: &FieldPath<'_>, errors: &mut Errors) {
    let from = variable.at("valueFrom");
    if !from.is_set() {
        return;
    }
    let mut sources = 0;
    let mut look = |name: &'static str| {
        let source = from.at(name);
        sources += u32::from(source.is_set());
        Some(source).filter(FieldPath::is_set)
    };
    let field = look("fieldRef");
    let resource = look("resourceFieldRef");
    let config = look("configMapKeyRef");
    let secret = look("secretKeyRef");
    let file = look("fileKeyRef");
    if let Some(field) = field {
        check_field(&field, FIELDS_OF_VARIABLES, errors);
    }
    if let Some(resource) = resource {
        check_resource(&resource, false, errors);
    }
    for selector in config.into_iter().chain(secret) {
        check_key_of(&selector, errors);
    }
    if let Some(file) = file {
        check_file(&file, errors);
    }
    let empty = Value::from("");
    if sources == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        errors.invalid_as(&from, &empty, detail);
    } else if !variable.at("value").is_empty() {
        let detail = "may not be specified when `value` is not empty";
        errors.invalid_as(&from, &empty, detail);
    } else if sources > 1 {
        let detail = "may not have more than one field specified at a time";
        errors.invalid_as(&from, &empty, detail);
    }
}

fn check_key_of(selector: &FieldPath<'_>, errors: &mut Errors) {
    let (name, key) = (selector.at("name"), selector.at("key"));
    check::subdomain(&name, errors);
    if key.is_empty() {
        errors.required(&key, "");
    } else {
        check::add_messages(&key, check::config_key(key.text()), errors);
    }
}

fn check_file(file: &FieldPath<'_>, errors: &mut Errors) {
    let (key, volume, path) = (file.at("key"), file.at("volumeName"), file.at("path"));
    check::required(&key, check::variable_name, errors);
    check::required(&volume, check::label, errors);
    if path.is_empty() {
        errors.required(&path, "");
    } else {
        check::no_backsteps(&path, path.text(), errors);
    }
}

/// Checks a reference to a field of the Pod (upstream: `validateObjectFieldSelector`).
pub(super) fn check_field(at: &FieldPath<'_>, fields: &[&str], errors: &mut Errors) {
    for field in ["apiVersion", "fieldPath"] {
        if at.at(field).is_empty() {
            errors.required(&at.at(field), "");
            return;
        }
    }
    let (version, path) = (at.at("apiVersion").text(), at.at("fieldPath"));
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.invalid(&path, &detail);
        return;
    }
    let text = path.text();
    if let Some((base, key)) = subscript(text) {
        let key = match base {
            "metadata.annotations" => key.to_lowercase(),
            "metadata.labels" => key.to_owned(),
            _ => {
                let detail = format!(
                    "error converting fieldPath: field label does not support subscript: {text}"
                );
                errors.invalid(&path, &detail);
                return;
            }
        };
        for detail in names::check_key(&key) {
            errors.invalid_as(at, &Value::from(key.as_str()), &detail);
        }
        return;
    }
    let known = FIELDS_OF_VARIABLES.contains(&text)
        || FIELDS_OF_FILES.contains(&text)
        || matches!(
            text,
            "spec.restartPolicy" | "spec.schedulerName" | "status.phase"
        );
    if !known {
        let detail = format!("error converting fieldPath: field label not supported: {text}");
        errors.invalid(&path, &detail);
    } else if !fields.contains(&text) {
        errors.not_supported(&path, fields);
    }
}

/// Splits a path of the form `path['key']` into the path and the key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?
        .split_once("['")
        .filter(|(base, _)| !base.is_empty())
}

/// Checks a reference to a container's resources (upstream:
/// `validateContainerResourceFieldSelector`).
pub(super) fn check_resource(at: &FieldPath<'_>, in_volume: bool, errors: &mut Errors) {
    let resource = at.at("resource");
    let name = resource.text();
    let huge = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if in_volume && at.at("containerName").is_empty() {
        errors.required(&at.at("containerName"), "");
    } else if name.is_empty() {
        errors.required(&resource, "");
    } else if !RESOURCES.contains(&name) && !huge {
        errors.not_supported(&resource, RESOURCES);
    }
    let divisor = at.at("divisor");
    if divisor.is_empty() || divisor.text() == "0" {
        return;
    }
    let part = name.rsplit_once('.').map_or("", |(_, part)| part);
    let (allowed, listed, noun): (&[&str], &str, &str) = match part {
        "cpu" => (&["1m", "1"], "1m and 1", "cpu"),
        "memory" | "ephemeral-storage" => {
            let noun = if part == "memory" {
                part
            } else {
                "local ephemeral storage"
            };
            (
                DIVISORS,
                "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei",
                noun,
            )
        }
        _ if huge => {
            let listed = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
            (DIVISORS, listed, "hugepages")
        }
        _ => return,
    };
    if !allowed.contains(&divisor.text()) {
        let detail =
            format!("only divisor's values {listed} are supported with the {noun} resource");
        errors.invalid_as(&divisor, resource.value(), &detail);
    }
}

/// Checks the ConfigMaps and Secrets that a container takes all variables from (upstream:
/// `ValidateEnvFrom`).
pub(super) fn check_from(sources: &FieldPath<'_>, errors: &mut Errors) {
    for source in sources.items() {
        let prefix = source.at("prefix");
        if !prefix.is_empty() {
            check::variable_name(&prefix, errors);
        }
        let mut found = 0;
        for field in ["configMapRef", "secretRef"] {
            let field = source.at(field);
            if !field.is_set() {
                continue;
            }
            found += 1;
            let name = field.at("name");
            check::required(&name, check::subdomain, errors);
        }
        let empty = Value::from("");
        if found == 0 {
            let detail = "must specify one of: `configMapRef` or `secretRef`";
            errors.invalid_as(sources, &empty, detail);
        } else if found > 1 {
            let detail = "may not have more than one field specified at a time";
            errors.invalid_as(sources, &empty, detail);
        }
    }
}
