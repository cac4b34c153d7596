//! Machine: the checks that many kinds share, with the messages of
//! `apimachinery/pkg/util/validation`.

use serde_json::Value;
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::quantity::Quantity;

use super::field_path::{Errors, FieldPath};
use super::go_value::{self, GoType};

/// The message for every field that may not change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const VARIABLE: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Checks that a field keeps its old value.
pub(crate) fn immutable(new: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
    if new.value() != old {
        errors.invalid(new, IMMUTABLE);
    }
}

/// Checks that a struct keeps its old value. The message prints the struct as Go prints this type.
pub(crate) fn immutable_struct(
    new: &FieldPath<'_>,
    old: &Value,
    kind: &GoType,
    errors: &mut Errors,
) {
    if new.value() != old {
        errors.invalid_written(new, &go_value::print(kind, new.value()), IMMUTABLE);
    }
}

/// Checks that a text is present and follows a rule.
pub(crate) fn required(
    at: &FieldPath<'_>,
    rule: impl FnOnce(&FieldPath<'_>, &mut Errors),
    errors: &mut Errors,
) {
    if at.is_empty() {
        errors.required(at, "");
    } else {
        rule(at, errors);
    }
}

/// Checks that a number is not negative. An absent number passes.
pub(crate) fn not_negative(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.int() < 0 {
        errors.invalid(at, NOT_NEGATIVE);
    }
}

/// Checks that a quantity is not negative. A value that is no quantity passes.
pub(crate) fn not_negative_amount(at: &FieldPath<'_>, errors: &mut Errors) {
    if Quantity::parse(at.text()).is_ok_and(|amount| amount.sign() < 0) {
        errors.invalid(at, NOT_NEGATIVE);
    }
}

/// Checks that a number lies between two bounds, both included. An absent number counts as zero.
pub(crate) fn in_range(at: &FieldPath<'_>, least: i64, most: i64, errors: &mut Errors) {
    let number = at.int();
    if !(least..=most).contains(&number) {
        let detail = format!("must be between {least} and {most}, inclusive");
        errors.invalid_as(at, &Value::from(number), &detail);
    }
}

/// Checks a port number.
pub(crate) fn port(at: &FieldPath<'_>, errors: &mut Errors) {
    in_range(at, 1, 65535, errors);
}

/// Checks a port number or port name.
pub(crate) fn port_or_name(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.value().is_string() {
        add_messages(at, port_name(at.text()), errors);
    } else {
        port(at, errors);
    }
}

/// Returns the errors of a port name (upstream: `IsValidPortName`).
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.bytes().all(legal) {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// Adds one error for each message about the text of a field.
pub(crate) fn add_messages(at: &FieldPath<'_>, wrong: Vec<String>, errors: &mut Errors) {
    for detail in wrong {
        errors.invalid_text(at, &detail);
    }
}

/// Checks a text by the rule of a name.
pub(crate) fn name(rule: NameRule, at: &FieldPath<'_>, errors: &mut Errors) {
    add_messages(at, names::check_name(rule, at.text()), errors);
}

/// Checks a lower case RFC 1123 label. Unlike in an object's name, a dot has no message of its own.
pub(crate) fn label(at: &FieldPath<'_>, errors: &mut Errors) {
    add_messages(at, names::check_label(at.text()), errors);
}

/// Checks a lower case RFC 1123 subdomain.
pub(crate) fn subdomain(at: &FieldPath<'_>, errors: &mut Errors) {
    name(NameRule::Subdomain, at, errors);
}

/// Checks a name with an optional domain prefix, such as the key of a label.
pub(crate) fn qualified(at: &FieldPath<'_>, errors: &mut Errors) {
    add_messages(at, names::check_key(at.text()), errors);
}

/// Checks a map of labels. All errors name the map (upstream: `ValidateLabels`).
pub(crate) fn labels(at: &FieldPath<'_>, errors: &mut Errors) {
    for (key, value) in at.entries() {
        for detail in names::check_key(key) {
            errors.invalid_as(at, &Value::from(key), &detail);
        }
        for detail in names::check_label_value(value.text()) {
            errors.invalid_as(at, &Value::from(value.text()), &detail);
        }
    }
}

/// Checks a map of annotations. All errors name the map (upstream: `ValidateAnnotations`).
pub(crate) fn annotations(at: &FieldPath<'_>, errors: &mut Errors) {
    for (key, _) in at.entries() {
        for detail in names::check_key(&key.to_lowercase()) {
            errors.invalid_as(at, &Value::from(key), &detail);
        }
    }
}

/// Checks the name of an environment variable (upstream: `IsRelaxedEnvVarName`).
pub(crate) fn variable_name(at: &FieldPath<'_>, errors: &mut Errors) {
    let legal = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    if at.is_empty() || !at.text().bytes().all(legal) {
        errors.invalid_text(at, VARIABLE);
    }
}

/// Checks the name of an HTTP header (upstream: `IsHTTPHeaderName`).
pub(crate) fn header_name(at: &FieldPath<'_>, name: &str, errors: &mut Errors) {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if name.is_empty() || !name.bytes().all(legal) {
        errors.invalid_as(at, &Value::from(name), HEADER);
    }
}

/// Checks that a path has no `..` element.
pub(crate) fn no_backsteps(at: &FieldPath<'_>, path: &str, errors: &mut Errors) {
    if path.split('/').any(|part| part == "..") {
        errors.invalid_as(at, &Value::from(path), "must not contain '..'");
    }
}

/// Checks a relative path that has no `..` element (upstream: `validateLocalDescendingPath`).
pub(crate) fn descending_path(at: &FieldPath<'_>, path: &str, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid_as(at, &Value::from(path), "must be a relative path");
    }
    no_backsteps(at, path, errors);
}

/// Checks a descending path that does not begin with `..`, the prefix of the kubelet's own files
/// (upstream: `ValidateLocalNonReservedPath`).
pub(crate) fn free_path(at: &FieldPath<'_>, path: &str, errors: &mut Errors) {
    descending_path(at, path, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid_as(at, &Value::from(path), "must not start with '..'");
    }
}

/// Checks the name of a CSI driver (upstream: `ValidateCSIDriverName`).
pub(crate) fn csi_driver(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
    }
    if at.len() > 63 {
        errors.too_long(at, 63);
    }
    let lower = at.text().to_lowercase();
    add_messages(at, names::check_name(NameRule::Subdomain, &lower), errors);
}

/// Checks that a text is one of the supported values. An absent field counts as an empty text.
pub(crate) fn one_of(at: &FieldPath<'_>, supported: &[&str], errors: &mut Errors) {
    if !supported.contains(&at.text()) {
        errors.not_supported(at, supported);
    }
}

/// Checks that a text is present and one of the supported values.
pub(crate) fn required_one_of(at: &FieldPath<'_>, supported: &[&str], errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
    } else {
        one_of(at, supported, errors);
    }
}

/// Returns the errors of a key of a ConfigMap or a Secret (upstream: `IsConfigMapKey`).
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if key.len() > 253 {
        wrong.push("must be no more than 253 characters".to_owned());
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if key.is_empty() || !key.bytes().all(legal) {
        wrong.push(CONFIG_KEY.to_owned());
    } else if key == "." {
        wrong.push("must not be '.'".to_owned());
    } else if key == ".." {
        wrong.push("must not be '..'".to_owned());
    } else if key.starts_with("..") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

/// Returns the percentage in a text, if the text is one.
pub(crate) fn percent(at: &FieldPath<'_>) -> Option<i64> {
    let digits = at.text().strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Checks a number or a percentage, neither of them negative (upstream:
/// `ValidatePositiveIntOrPercent`).
pub(crate) fn number_or_percent(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.value().is_string() {
        if percent(at).is_none() {
            errors.invalid(at, PERCENT);
        }
    } else {
        not_negative(at, errors);
    }
}

/// Checks that a percentage is at most 100 (upstream: `IsNotMoreThan100Percent`).
pub(crate) fn at_most_hundred_percent(at: &FieldPath<'_>, errors: &mut Errors) {
    if percent(at).is_some_and(|percent| percent > 100) {
        errors.invalid(at, "must not be greater than 100%");
    }
}

/// Returns a number, or the number in front of a percent sign (upstream: `getIntOrPercentValue`).
pub(crate) fn number_or_percent_value(at: &FieldPath<'_>) -> i64 {
    percent(at).unwrap_or_else(|| at.int())
}

/// Largest number of bytes in the reason, and in the message, of a condition.
const MOST_REASON: usize = 1024;
const MOST_MESSAGE: usize = 32 * 1024;

const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Checks conditions of the type that all kinds share (upstream: `ValidateConditions` of
/// `apis/meta/v1/validation`).
pub(crate) fn conditions(all: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for condition in all.items() {
        let kind = condition.at("type");
        if seen.contains(&kind.text()) {
            errors.duplicate(&kind);
        } else {
            seen.push(kind.text());
        }
        qualified(&kind, errors);
        let status = condition.at("status");
        if !["False", "True", "Unknown"].contains(&status.text()) {
            errors.not_supported(&status, &["False", "True", "Unknown"]);
        }
        let generation = condition.at("observedGeneration");
        if generation.int() < 0 {
            errors.invalid(&generation, "must be greater than or equal to zero");
        }
        let time = condition.at("lastTransitionTime");
        if time.text().is_empty() {
            errors.required(&time, "must be set");
        }
        let (reason, message) = (condition.at("reason"), condition.at("message"));
        if reason.text().is_empty() {
            errors.required(&reason, "must be set");
        } else {
            if !is_reason(reason.text()) {
                errors.invalid_text(&reason, REASON);
            }
            if reason.text().len() > MOST_REASON {
                errors.too_long(&reason, MOST_REASON);
            }
        }
        if message.text().len() > MOST_MESSAGE {
            errors.too_long(&message, MOST_MESSAGE);
        }
    }
}

fn is_reason(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_,:".contains(&byte);
    let is_last = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match text.as_bytes() {
        [only] => only.is_ascii_alphabetic(),
        [first, inner @ .., last] => {
            first.is_ascii_alphabetic()
                && inner.iter().all(|byte| is_inner(*byte))
                && is_last(*last)
        }
        [] => false,
    }
}
