//! Machine: checks names, labels, annotations, finalizers and owner references of `metadata`.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::go;
use crate::status::FieldError;

use super::order;

/// The rule for the object names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A lower case RFC 1123 subdomain, the usual rule.
    Subdomain,
    /// A lower-case RFC 1123 label: at most 63 characters and no dots.
    Label,
    /// An RFC 1035 label, which starts with a letter, as for Services.
    Label1035,
    /// Any text that is a single segment of a path, as for the kinds of RBAC.
    PathSegment,
    /// An IP address in its canonical form, as for IPAddresses.
    IpAddress,
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const KEY_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The maximum total size, in bytes, of the keys and values of an object's annotations.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns whether a text consists of labels of lower-case letters, digits and dashes, joined by dots (RFC 1123).
pub fn is_subdomain(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// Returns the problems of an object's name; none for a valid name.
pub fn check_name(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => {
            let form = (!is_subdomain(name)).then_some(SUBDOMAIN);
            problems(name, 253, "characters", form)
        }
        NameRule::Label => check_label(name),
        NameRule::Label1035 => {
            let fits = is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
            problems(name, 63, "characters", (!fits).then_some(LABEL_1035))
        }
        NameRule::PathSegment => {
            let whole = matches!(name, "." | "..").then(|| format!("may not be '{name}'"));
            let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
            let parts = parts.map(|part| format!("may not contain '{part}'"));
            whole.into_iter().chain(parts).collect()
        }
        NameRule::IpAddress => check_address(name).into_iter().collect(),
    }
}

/// Returns the problem that a text is longer than `most`, and the problem of its form.
fn problems(text: &str, most: usize, unit: &str, form: Option<&str>) -> Vec<String> {
    let length = (text.len() > most).then(|| format!("must be no more than {most} {unit}"));
    length.into_iter().chain(form.map(str::to_owned)).collect()
}

/// Returns the problem of a name that must be an IP address (upstream: `validation.IsValidIP`).
fn check_address(name: &str) -> Option<String> {
    let Ok(address) = name.parse::<IpAddr>() else {
        let mut octets = name.split('.').map(str::parse::<u8>);
        let is_padded = name.split('.').count() == 4 && octets.all(|octet| octet.is_ok());
        let detail = if is_padded {
            "must not have leading 0s"
        } else {
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        };
        return Some(detail.to_owned());
    };
    if matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return Some("must not be an IPv4-mapped IPv6 address".to_owned());
    }
    let canonical = address.to_string();
    (canonical != name).then(|| format!("must be in canonical form (\"{canonical}\")"))
}

/// Returns the problems of a `generateName`, which may end with a dash.
pub fn check_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    let most = prefix.len().saturating_sub(2);
    if rule == NameRule::PathSegment {
        let mut wrong = check_name(rule, prefix);
        wrong.retain(|why| why.starts_with("may not contain"));
        return wrong;
    }
    // No kind with this rule generates names, so a prefix is checked as a whole name.
    if rule == NameRule::IpAddress {
        return check_name(rule, prefix);
    }
    match prefix.strip_suffix('-').and_then(|_| prefix.get(..most)) {
        Some(before) if prefix.len() > 1 => check_name(rule, &format!("{before}a")),
        _ => check_name(rule, prefix),
    }
}

/// Returns the problems of a lower case RFC 1123 label.
pub fn check_label(text: &str) -> Vec<String> {
    let form = if is_subdomain(text) {
        "must not contain dots"
    } else {
        LABEL
    };
    problems(text, 63, "characters", (!is_label(text)).then_some(form))
}

/// Returns the problems of a DNS search path: a subdomain of labels that may begin with and contain underscores.
pub fn check_search(text: &str) -> Vec<String> {
    let plain = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_label(&label.replace('_', "-"))
    };
    let fits = !text.is_empty() && text.split('.').all(plain);
    problems(text, 253, "characters", (!fits).then_some(SEARCH))
}

/// Returns the problems of a label's value.
pub fn check_label_value(value: &str) -> Vec<String> {
    let fits = value.is_empty() || is_qualified(value);
    problems(value, 63, "bytes", (!fits).then_some(LABEL_VALUE))
}

/// Returns the problems of a label key or a finalizer: an optional domain with a slash, and a name.
pub fn check_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else if !is_subdomain(prefix) {
                wrong.push(format!("prefix part {SUBDOMAIN}"));
            }
            name
        }
        Some(_) => {
            return vec![format!(
                "a valid label key {KEY_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        wrong.push(format!("name part {KEY_PART}"));
    }
    wrong
}

fn push_all(errors: &mut Vec<FieldError>, field: &str, value: &str, wrong: &[String]) {
    let value = go::quote(value);
    let error = |detail: &String| FieldError::invalid(field, &value, detail);
    errors.extend(wrong.iter().map(error));
}

/// Checks the labels, annotations and owner references in an object's metadata.
pub fn check_attached(metadata: &Value, errors: &mut Vec<FieldError>) {
    if let Some(labels) = metadata["labels"].as_object() {
        check_labels("metadata", labels, errors);
    }
    if let Some(annotations) = metadata["annotations"].as_object() {
        check_annotations("metadata", annotations, errors);
    }
    if let Some(owners) = metadata["ownerReferences"].as_array() {
        check_owners(owners, errors);
    }
}

/// Checks the labels of the metadata at `path`.
pub fn check_labels(path: &str, labels: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.labels");
    for (key, value) in labels {
        push_all(errors, &field, key, &check_key(key));
        let value = value.as_str().unwrap_or_default();
        push_all(errors, &field, value, &check_label_value(value));
    }
}

/// Checks the annotations of the metadata at `path`: their keys and their total size. Values may be any text.
pub fn check_annotations(
    path: &str,
    annotations: &Map<String, Value>,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{path}.annotations");
    for key in annotations.keys() {
        push_all(errors, &field, key, &check_key(&lowercase_prefix(key)));
    }
    if are_annotations_too_large(annotations) {
        let detail = format!("may not be more than {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError::too_long(&field, &detail));
    }
}

/// Returns whether the total size of the keys and values of annotations exceeds the limit.
pub fn are_annotations_too_large(annotations: &Map<String, Value>) -> bool {
    let sizes = annotations.iter();
    let sizes = sizes.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    sizes.sum::<usize>() > ANNOTATIONS_LIMIT
}

/// Returns an annotation key with its domain in lower case, because upstream ignores the case of the domain.
fn lowercase_prefix(key: &str) -> String {
    match key.split_once('/') {
        Some((prefix, name)) => format!("{}/{name}", prefix.to_lowercase()),
        None => key.to_owned(),
    }
}

fn is_standard(finalizer: &str) -> bool {
    matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
}

/// Returns the warning that a finalizer of a custom resource has no domain.
pub fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let mut wrong = check_key(finalizer);
    if !finalizer.contains('/') && !is_standard(finalizer) {
        wrong.push("prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers".to_owned());
    }
    let quoted = Value::String(finalizer.to_owned());
    let warning = |why: &String| format!("metadata.finalizers: {quoted}: {why}");
    wrong.iter().map(warning).collect()
}

/// Checks `metadata.finalizers` of a built-in kind: a finalizer has a domain or is one that Kubernetes defines.
pub fn check_finalizers(finalizers: &[Value], own: bool, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in finalizers.iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        push_all(errors, "metadata.finalizers", name, &check_key(name));
        if own && !name.contains('/') && !is_standard(name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{index}]");
            push_all(errors, &field, name, &[detail.to_owned()]);
        }
    }
}

const OWNERS: &str = "metadata.ownerReferences";

/// Checks `metadata.ownerReferences`.
pub fn check_owners(owners: &[Value], errors: &mut Vec<FieldError>) {
    let mut controllers: Vec<String> = Vec::new();
    for owner in owners {
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let field = format!("{OWNERS}.{field}");
                errors.push(FieldError::invalid(field, "\"\"", detail));
            }
        }
        if owner["controller"] == true {
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
        if owner["apiVersion"] == "v1" && owner["kind"] == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(OWNERS, &order::owner(owner), detail));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(FieldError::invalid(OWNERS, &order::owners(owners), &detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_follow_their_kinds_rule() {
        let bad = |rule, name: &str| !check_name(rule, name).is_empty();
        for name in ["a", "a.b", "a-1.b", "0"] {
            assert!(!bad(NameRule::Subdomain, name), "{name}");
        }
        for name in ["", "A", "-a", "a_", "a..b", "a/b", &"n".repeat(254)] {
            assert!(bad(NameRule::Subdomain, name), "{name}");
        }
        assert_eq!(
            check_name(NameRule::Label, "g.dotted"),
            ["must not contain dots"]
        );
        assert!(bad(NameRule::Label1035, "1a") && !bad(NameRule::Label1035, "a1"));
        let wrong = |prefix: &str| check_prefix(NameRule::Subdomain, prefix).len();
        assert_eq!(
            (wrong("a-"), wrong("ab-"), wrong("A-b-"), wrong("-")),
            (0, 0, 1, 1)
        );
        assert!(check_prefix(NameRule::PathSegment, "..").is_empty());
        assert!(bad(NameRule::PathSegment, "a/b") && !bad(NameRule::PathSegment, "system:x"));
    }

    #[test]
    fn invalid_labels_and_finalizers_are_reported() {
        let problems = |labels: Value| {
            let mut errors = Vec::new();
            check_labels("metadata", labels.as_object().unwrap(), &mut errors);
            errors.len()
        };
        assert_eq!(
            problems(json!({"a": "b", "example.com/x": "", "A_1": "v.1"})),
            0
        );
        assert_eq!(problems(json!({"bad key": "x"})), 1);
        assert_eq!(problems(json!({"": "x"})), 2);
        assert_eq!(problems(json!({"UPPER.example.com/k": "v"})), 1);
        assert_eq!(problems(json!({"a": "bad value!"})), 1);
        let mut errors = Vec::new();
        check_finalizers(
            &[json!("plain"), json!("e.com/ok"), json!("bad one")],
            true,
            &mut errors,
        );
        let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "metadata.finalizers[0]", "metadata.finalizers", "metadata.finalizers[2]"
            ]
        );
    }

    #[test]
    fn only_one_owner_may_be_the_controller() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": name, "controller": true});
        let mut errors = Vec::new();
        check_owners(&[owner("p"), owner("q")], &mut errors);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].message.ends_with("for K/p and K/q"));
    }
}
