//! Machine: checks the environment variables of containers and their sources.

use steersman_apimachinery::names;

use crate::fields::{FieldPath, check};

/// Fields of a Pod that an environment variable may refer to.
const FIELDS_OF_VARIABLES: &[&str] = &[
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
];

/// Fields of a Pod that a file of a volume may refer to.
pub(super) const FIELDS_OF_FILES: &[&str] = &[
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
];

/// Resources that an environment variable or a file may refer to.
const RESOURCES: &[&str] = &[
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
];

const DIVISORS: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

const MANY_SOURCES: &str = "may not have more than one field specified at a time";

/// Checks the variables of a container (upstream: `ValidateEnv`).
pub(super) fn check(variables: &FieldPath<'_>) {
    for variable in variables.items() {
        check::required(&variable.at("name"), check::variable_name);
        check_source(&variable);
    }
}

fn check_source(variable: &FieldPath<'_>) {
    let from = variable.at("valueFrom");
    if !from.is_set() {
        return;
    }
    let mut sources = 0;
    let mut look = |name: &'static str, check: fn(&FieldPath<'_>)| {
        let source = from.at(name);
        sources += u32::from(source.is_set());
        source.if_set(check);
    };
    look("fieldRef", |field| check_field(field, FIELDS_OF_VARIABLES));
    look("resourceFieldRef", |resource| {
        check_resource(resource, false)
    });
    look("configMapKeyRef", check_key_of);
    look("secretKeyRef", check_key_of);
    look("fileKeyRef", check_file);
    if sources == 0 {
        from.invalid_as("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`");
    } else if !variable.at("value").is_empty() {
        from.invalid_as("", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        from.invalid_as("", MANY_SOURCES);
    }
}

fn check_key_of(selector: &FieldPath<'_>) {
    check::subdomain(&selector.at("name"));
    check::required(&selector.at("key"), |key| {
        check::config_key(key, key.text())
    });
}

fn check_file(file: &FieldPath<'_>) {
    check::required(&file.at("key"), check::variable_name);
    check::required(&file.at("volumeName"), check::label);
    check::required(&file.at("path"), check::no_backsteps);
}

/// Checks a reference to a field of the Pod (upstream: `validateObjectFieldSelector`).
pub(super) fn check_field(at: &FieldPath<'_>, fields: &[&str]) {
    let [version, path] = at.parts(["apiVersion", "fieldPath"]);
    if let Some(empty) = [&version, &path].into_iter().find(|field| field.is_empty()) {
        return empty.required("");
    }
    let (version, text) = (version.text(), path.text());
    let refuse = |why: &str| path.invalid(&format!("error converting fieldPath: {why}"));
    if version != "v1" {
        refuse(&format!("unsupported pod version: {version}"));
        return;
    }
    if let Some((base, key)) = subscript(text) {
        let key = match base {
            "metadata.annotations" => key.to_lowercase(),
            "metadata.labels" => key.to_owned(),
            _ => return refuse(&format!("field label does not support subscript: {text}")),
        };
        at.invalid_each(key.as_str(), names::check_key(&key));
        return;
    }
    let known = FIELDS_OF_VARIABLES.contains(&text)
        || FIELDS_OF_FILES.contains(&text)
        || ["spec.restartPolicy", "spec.schedulerName", "status.phase"].contains(&text);
    if !known {
        refuse(&format!("field label not supported: {text}"));
    } else if !fields.contains(&text) {
        path.not_supported(fields);
    }
}

/// Splits a path of the form `path['key']` into the path and the key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?
        .split_once("['")
        .filter(|(base, _)| !base.is_empty())
}

/// Checks a reference to a resource (upstream: `validateContainerResourceFieldSelector`).
pub(super) fn check_resource(at: &FieldPath<'_>, in_volume: bool) {
    let resource = at.at("resource");
    let name = resource.text();
    let huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if in_volume && at.at("containerName").is_empty() {
        at.at("containerName").required("");
    } else if name.is_empty() {
        resource.required("");
    } else if !RESOURCES.contains(&name) && !huge {
        resource.not_supported(RESOURCES);
    }
    let divisor = at.at("divisor");
    if divisor.is_empty() || divisor.text() == "0" {
        return;
    }
    let part = name.rsplit_once('.').map_or("", |(_, part)| part);
    let (allowed, listed, noun): (&[&str], String, &str) = match part {
        "cpu" => (&["1m", "1"], "1m and 1".to_owned(), "cpu"),
        "memory" => (DIVISORS, DIVISORS.join(", "), part),
        "ephemeral-storage" => (DIVISORS, DIVISORS.join(", "), "local ephemeral storage"),
        _ if huge => (DIVISORS, DIVISORS.join(", "), "hugepages"),
        _ => return,
    };
    if !allowed.contains(&divisor.text()) {
        let detail =
            format!("only divisor's values {listed} are supported with the {noun} resource");
        divisor.invalid_as(resource.value(), &detail);
    }
}

/// Checks the sources of all variables of a container (upstream: `ValidateEnvFrom`).
pub(super) fn check_from(sources: &FieldPath<'_>) {
    for source in sources.items() {
        source.at("prefix").if_filled(check::variable_name);
        let mut found = 0;
        for field in source.parts(["configMapRef", "secretRef"]) {
            found += usize::from(field.is_set());
            field.if_set(|field| check::required(&field.at("name"), check::subdomain));
        }
        match found {
            0 => sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => sources.invalid_as("", MANY_SOURCES),
        }
    }
}
