//! Machine: the checks that many kinds share, with the messages of `apimachinery/pkg/util/validation`.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use steersman_apimachinery::constant_pattern::{ConstantPattern, is_match};
use steersman_apimachinery::names::{self, NameRule};
use steersman_apimachinery::quantity::Quantity;

use super::field_path::FieldPath;
use super::go_value::GoType;

pub(crate) const IMMUTABLE: &str = "field is immutable";

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const VARIABLE: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Checks that an update keeps a value. `old` is `None` for a new object.
pub(crate) fn immutable<'v>(new: &FieldPath<'_>, old: impl Into<Option<&'v Value>>) {
    if old.into().is_some_and(|old| old != new.value()) {
        new.invalid(IMMUTABLE);
    }
}

pub(crate) fn immutable_members(new: &FieldPath<'_>, old: &Value, names: &[&str]) {
    for name in names {
        immutable(&new.at(name), &old[*name]);
    }
}

/// Checks that a struct keeps its old value. The message prints the struct as Go prints this type.
pub(crate) fn immutable_struct(new: &FieldPath<'_>, old: &Value, kind: &GoType) {
    if new.value() != old {
        new.invalid_printed(kind, IMMUTABLE);
    }
}

/// Checks that a text is present and follows a rule.
pub(crate) fn required<'a>(at: &FieldPath<'a>, rule: impl FnOnce(&FieldPath<'a>)) {
    if at.is_empty() {
        at.required("");
    } else {
        rule(at);
    }
}

/// Checks that a number is not negative. An absent number passes.
pub(crate) fn not_negative(at: &FieldPath<'_>) {
    at.at_least(0, NOT_NEGATIVE);
}

/// Checks that these members are no negative numbers.
pub(crate) fn not_negative_members(at: &FieldPath<'_>, names: &[&str]) {
    for name in names {
        not_negative(&at.at(name));
    }
}

/// Checks that a quantity is not negative. A value that is no quantity passes.
pub(crate) fn not_negative_amount(at: &FieldPath<'_>) {
    if Quantity::parse(at.text()).is_ok_and(|amount| amount.sign() < 0) {
        at.invalid(NOT_NEGATIVE);
    }
}

/// Checks that a number lies between two bounds, both included. An absent number counts as zero.
pub(crate) fn in_range(at: &FieldPath<'_>, least: i64, most: i64) {
    let number = at.int();
    if !(least..=most).contains(&number) {
        let detail = format!("must be between {least} and {most}, inclusive");
        at.invalid_as(number, &detail);
    }
}

pub(crate) fn port(at: &FieldPath<'_>) {
    in_range(at, 1, 65535);
}

/// Checks the port number of a reference to a Service.
pub(crate) fn service_port(at: &FieldPath<'_>) {
    if !(1..=65535).contains(&at.int()) {
        at.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
}

pub(crate) fn port_or_name(at: &FieldPath<'_>) {
    if at.value().is_string() {
        port_name(at);
    } else {
        port(at);
    }
}

/// Checks a port name (upstream: `IsValidPortName`).
pub(crate) fn port_name(at: &FieldPath<'_>) {
    let name = at.text();
    if name.len() > 15 {
        at.invalid_text("must be no more than 15 characters");
    }
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.bytes().all(legal) {
        let detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        at.invalid_text(detail);
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        at.invalid_text("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        at.invalid_text("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        at.invalid_text("must not begin or end with a hyphen");
    }
}

/// Checks a text by the rule of a name.
pub(crate) fn name(rule: NameRule, at: &FieldPath<'_>) {
    at.invalid_each(at.text(), names::check_name(rule, at.text()));
}

/// Checks a lower case RFC 1123 label. Unlike in an object's name, a dot has no message of its own.
pub(crate) fn label(at: &FieldPath<'_>) {
    at.invalid_each(at.text(), names::check_label(at.text()));
}

pub(crate) fn label_value(at: &FieldPath<'_>) {
    at.invalid_each(at.text(), names::check_label_value(at.text()));
}

/// Checks a lower case RFC 1123 subdomain.
pub(crate) fn subdomain(at: &FieldPath<'_>) {
    name(NameRule::Subdomain, at);
}

/// Checks a name with an optional domain prefix, such as the key of a label.
pub(crate) fn qualified(at: &FieldPath<'_>) {
    at.invalid_each(at.text(), names::check_key(at.text()));
}

/// Checks a map of labels. All errors name the map (upstream: `ValidateLabels`).
pub(crate) fn labels(at: &FieldPath<'_>) {
    for (key, value) in at.entries() {
        at.invalid_each(key, names::check_key(key));
        at.invalid_each(value.text(), names::check_label_value(value.text()));
    }
}

/// Checks a map of annotations. All errors name the map (upstream: `ValidateAnnotations`).
pub(crate) fn annotations(at: &FieldPath<'_>) {
    for (key, _) in at.entries() {
        at.invalid_each(key, names::check_key(&key.to_lowercase()));
    }
}

/// Checks the name of an environment variable (upstream: `IsRelaxedEnvVarName`).
pub(crate) fn variable_name(at: &FieldPath<'_>) {
    let legal = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    if at.is_empty() || !at.text().bytes().all(legal) {
        at.invalid_text(VARIABLE);
    }
}

/// Checks the name of an HTTP header (upstream: `IsHTTPHeaderName`).
pub(crate) fn header_name(at: &FieldPath<'_>, name: &str) {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if name.is_empty() || !name.bytes().all(legal) {
        at.invalid_as(name, HEADER);
    }
}

/// Checks that a path has no `..` element.
pub(crate) fn no_backsteps(at: &FieldPath<'_>) {
    if at.text().split('/').any(|part| part == "..") {
        at.invalid_text("must not contain '..'");
    }
}

/// Checks a relative path that has no `..` element (upstream: `validateLocalDescendingPath`).
pub(crate) fn descending_path(at: &FieldPath<'_>) {
    if at.text().starts_with('/') {
        at.invalid_text("must be a relative path");
    }
    no_backsteps(at);
}

/// Checks a path that is not the kubelet's own (upstream: `ValidateLocalNonReservedPath`).
pub(crate) fn free_path(at: &FieldPath<'_>) {
    descending_path(at);
    if at.text().starts_with("..") && !at.text().starts_with("../") {
        at.invalid_text("must not start with '..'");
    }
}

/// Checks the name of a CSI driver (upstream: `ValidateCSIDriverName`).
pub(crate) fn csi_driver(at: &FieldPath<'_>) {
    at.need("");
    at.at_most_bytes(63);
    let lower = at.text().to_lowercase();
    at.invalid_each(at.text(), names::check_name(NameRule::Subdomain, &lower));
}

/// Checks the name of a kind: an RFC 1035 label, in lower or upper case.
pub(crate) fn kind(at: &FieldPath<'_>) {
    let wrong = names::check_name(NameRule::Label1035, &at.text().to_lowercase());
    if !wrong.is_empty() {
        let lead = "may have mixed case, but should otherwise match: ";
        at.invalid_text(&format!("{lead}{}", wrong.join(",")));
    }
}

/// Checks that a text has at most one slash, as an `apiVersion`. Returns whether this holds.
pub(crate) fn group_version(at: &FieldPath<'_>) -> bool {
    let is_one = at.text().matches('/').count() <= 1;
    if !is_one {
        at.invalid_text(&format!("unexpected GroupVersion string: {}", at.text()));
    }
    is_one
}

/// Checks that a text is one of the supported values. An absent field counts as an empty text.
pub(crate) fn one_of(at: &FieldPath<'_>, supported: &[&str]) {
    if !supported.contains(&at.text()) {
        at.not_supported(supported);
    }
}

/// Checks that a text is one of the supported values. An absent field passes.
pub(crate) fn optional(at: &FieldPath<'_>, supported: &[&str]) {
    at.if_set(|at| one_of(at, supported));
}

/// Checks that a text is present and one of the supported values.
pub(crate) fn required_one_of(at: &FieldPath<'_>, supported: &[&str]) {
    required(at, |at| one_of(at, supported));
}

/// Checks a key of a ConfigMap or a Secret (upstream: `IsConfigMapKey`).
pub(crate) fn config_key(at: &FieldPath<'_>, key: &str) {
    if key.len() > 253 {
        at.invalid_as(key, "must be no more than 253 characters");
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if key.is_empty() || !key.bytes().all(legal) {
        at.invalid_as(key, CONFIG_KEY);
    } else if matches!(key, "." | "..") {
        at.invalid_as(key, &format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        at.invalid_as(key, "must not start with '..'");
    }
}

/// Returns the percentage in a text, if the text is one.
pub(crate) fn percent(at: &FieldPath<'_>) -> Option<i64> {
    let digits = at.text().strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Checks a number or a percentage (upstream: `ValidatePositiveIntOrPercent`).
pub(crate) fn number_or_percent(at: &FieldPath<'_>) {
    if at.value().is_string() {
        if percent(at).is_none() {
            at.invalid(PERCENT);
        }
    } else {
        not_negative(at);
    }
}

/// Checks that a percentage is at most 100 (upstream: `IsNotMoreThan100Percent`).
pub(crate) fn at_most_hundred_percent(at: &FieldPath<'_>) {
    if percent(at).is_some_and(|percent| percent > 100) {
        at.invalid("must not be greater than 100%");
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

static REASON_PATTERN: ConstantPattern =
    LazyLock::new(|| Regex::new("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$").ok());

/// Returns whether a status has a condition of this type that is true.
pub(crate) fn holds(status: &FieldPath<'_>, kind: &str) -> bool {
    let mut conditions = status.at("conditions").items();
    conditions.any(|one| one.at("type").text() == kind && one.at("status").text() == "True")
}

/// Checks the conditions that all kinds share (upstream: `ValidateConditions`).
pub(crate) fn conditions(all: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for condition in all.items() {
        let [kind, generation, reason] = condition.parts(["type", "observedGeneration", "reason"]);
        kind.unique(&mut seen);
        qualified(&kind);
        one_of(&condition.at("status"), &["False", "True", "Unknown"]);
        generation.at_least(0, "must be greater than or equal to zero");
        condition.at("lastTransitionTime").need("must be set");
        reason.need("must be set");
        reason.if_filled(|reason| {
            if !is_match(&REASON_PATTERN, reason.text()) {
                reason.invalid_text(REASON);
            }
            reason.at_most_bytes(MOST_REASON);
        });
        condition.at("message").at_most_bytes(MOST_MESSAGE);
    }
}
