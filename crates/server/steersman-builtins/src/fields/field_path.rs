//! Words: `FieldPath`, a value in an object with its path, and `Findings`, the errors and warnings about one object.

use std::cell::RefCell;
use std::collections::HashSet;

use serde::Serialize;

use serde_json::{Value, json};
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;

use super::fill::elements;
use super::go_value::{self, GoType};
use super::trail::{Segment, Trail};

static NULL: Value = Value::Null;

/// The errors and warnings about one object, in the order of the checks.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: RefCell<Vec<FieldError>>,
    warnings: RefCell<Vec<String>>,
}

/// A value (null for an absent field), its path, and the findings of its checks.
#[derive(Debug, Clone)]
pub(crate) struct FieldPath<'a> {
    trail: Trail<'a>,
    value: &'a Value,
    findings: &'a Findings,
}

impl Findings {
    /// Returns the errors that a check adds about an object.
    pub(crate) fn errors(object: &Value, check: impl FnOnce(&FieldPath<'_>)) -> Vec<FieldError> {
        let findings = Self::default();
        check(&FieldPath::root(object, &findings));
        findings.errors.into_inner()
    }

    /// Returns the warnings that a check adds about an object.
    pub(crate) fn warnings(object: &Value, check: impl FnOnce(&FieldPath<'_>)) -> Vec<String> {
        let findings = Self::default();
        check(&FieldPath::root(object, &findings));
        findings.warnings.into_inner()
    }
}

// === impl FieldPath: values ===

impl<'a> FieldPath<'a> {
    fn root(value: &'a Value, findings: &'a Findings) -> Self {
        Self {
            trail: Trail::from(""),
            value,
            findings,
        }
    }

    /// Returns another value with the same path in messages.
    pub(crate) fn with(&self, value: &'a Value) -> Self {
        Self {
            value,
            ..self.clone()
        }
    }

    /// Returns another value that messages name by this path.
    pub(crate) fn shown_at(&self, path: impl AsRef<str>, value: &'a Value) -> Self {
        Self {
            trail: Trail::from(path.as_ref()),
            value,
            findings: self.findings,
        }
    }

    fn then(&self, segment: Segment<'a>, value: Option<&'a Value>) -> Self {
        Self {
            trail: self.trail.then(segment),
            value: value.unwrap_or(&NULL),
            findings: self.findings,
        }
    }

    /// Returns the member of this name: `path.name`.
    pub(crate) fn at(&self, name: &'a str) -> Self {
        self.named(name, self.value.get(name))
    }

    pub(crate) fn parts<const N: usize>(&self, names: [&'a str; N]) -> [Self; N] {
        names.map(|name| self.at(name))
    }

    /// Returns the member at the end of a chain of names, for instance `spec.template`.
    pub(crate) fn down(&self, names: &'a str) -> Self {
        let mut steps = names.split('.');
        let value = steps.try_fold(self.value, |value, name| value.get(name));
        self.named(names, value)
    }

    /// Returns a value that messages name `path.name`. The object need not have such a member.
    pub(crate) fn named(&self, name: &'a str, value: Option<&'a Value>) -> Self {
        self.then(Segment::Name(name), value)
    }

    /// Returns the value of a map's key: `path[key]`.
    pub(crate) fn key(&self, key: &'a str) -> Self {
        self.then(Segment::Key(key), self.value.get(key))
    }

    /// Returns a value that messages name `path[index]`.
    pub(crate) fn index(&self, index: usize, value: &'a Value) -> Self {
        self.then(Segment::Index(index), Some(value))
    }

    /// Iterates over the elements of a list: `path[0]`, `path[1]` and so on.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let list = self.clone();
        let items = elements(self.value).iter().enumerate();
        items.map(move |(index, item)| list.then(Segment::Index(index), Some(item)))
    }

    /// Iterates over the members of a map, sorted by key: `path[key]`.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let map = self.clone();
        let members = self.value.as_object().into_iter().flatten();
        members.map(move |(key, value)| (key.as_str(), map.then(Segment::Key(key), Some(value))))
    }

    /// Returns the path as messages name it.
    pub(crate) fn path(&self) -> String {
        self.trail.text()
    }

    /// Returns whether the path is empty, as that of a whole object is.
    pub(crate) fn is_root(&self) -> bool {
        self.trail.is_empty()
    }

    /// Returns the path from the value of [`shown_at`](Self::shown_at) on, or from the root.
    pub(crate) fn inner_path(&self) -> String {
        self.trail.inner_text()
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Prints the value as Go prints this type.
    pub(crate) fn printed(&self, kind: &GoType) -> String {
        go_value::print(kind, self.value)
    }

    /// Returns the text, or an empty text for a value of another type.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns the integer, or zero for a value of another type.
    pub(crate) fn int(&self) -> i64 {
        self.number().unwrap_or_default()
    }

    pub(crate) fn flag(&self) -> bool {
        *self.value == Value::Bool(true)
    }

    /// Returns whether the value is not null, like a Go pointer that is not nil.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns whether the value is absent or an empty text, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of elements, members or bytes.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            Value::String(text) => text.len(),
            Value::Null => 0,
            Value::Bool(_) | Value::Number(_) => 1,
        }
    }
}

// === impl FieldPath: findings ===

impl<'a> FieldPath<'a> {
    pub(crate) fn push(&self, error: FieldError) {
        self.findings.errors.borrow_mut().push(error);
    }

    pub(crate) fn extend(&self, errors: Vec<FieldError>) {
        self.findings.errors.borrow_mut().extend(errors);
    }

    /// Returns the errors that a check adds about the value, instead of adding them to the others.
    pub(crate) fn errors_of(&self, check: impl FnOnce(&FieldPath<'_>)) -> Vec<FieldError> {
        let findings = Findings::default();
        check(&FieldPath {
            findings: &findings,
            ..self.clone()
        });
        findings.errors.into_inner()
    }

    pub(crate) fn error_count(&self) -> usize {
        self.findings.errors.borrow().len()
    }

    /// Calls a check. Returns whether the check adds no error.
    pub(crate) fn passes(&self, check: impl FnOnce(&Self)) -> bool {
        let before = self.error_count();
        check(self);
        self.error_count() == before
    }

    pub(crate) fn truncate_errors(&self, count: usize) {
        self.findings.errors.borrow_mut().truncate(count);
    }

    /// Adds the warning `<path>: <why>`.
    pub(crate) fn warn(&self, why: &str) {
        self.warn_as(&format!("{}: {why}", self.path()));
    }

    /// Adds a warning that does not begin with the path.
    pub(crate) fn warn_as(&self, warning: &str) {
        self.findings.warnings.borrow_mut().push(warning.to_owned());
    }

    /// Calls a check with a value that is not null.
    pub(crate) fn if_set(&self, check: impl FnOnce(&Self)) {
        if self.is_set() {
            check(self);
        }
    }

    /// Calls a check with a value that is neither absent nor empty.
    pub(crate) fn if_filled(&self, check: impl FnOnce(&Self)) {
        if !self.is_empty() {
            check(self);
        }
    }

    /// Calls a check with each element of a list.
    pub(crate) fn each(&self, mut check: impl FnMut(&Self)) {
        self.items().for_each(|item| check(&item));
    }

    /// Adds `Required value: <detail>` about a value that is absent or empty.
    pub(crate) fn need(&self, detail: &str) {
        if self.is_empty() {
            self.required(detail);
        }
    }

    /// Adds `Required value: <detail>` about a null value. Returns whether the value is set.
    pub(crate) fn need_set(&self, detail: &str) -> bool {
        if !self.is_set() {
            self.required(detail);
        }
        self.is_set()
    }

    /// Adds `Invalid value: <integer>: <detail>` about an integer below a bound.
    pub(crate) fn at_least(&self, least: i64, detail: &str) {
        if self.int() < least {
            self.invalid_as(self.int(), detail);
        }
    }

    /// Adds `Invalid value: <integer>: <detail>` about an integer above a bound.
    pub(crate) fn at_most(&self, most: i64, detail: &str) {
        if self.int() > most {
            self.invalid_as(self.int(), detail);
        }
    }

    /// Adds `Required value` about each of these members that is absent or empty.
    pub(crate) fn need_all(&self, names: &[&'a str]) {
        for name in names {
            self.at(name).need("");
        }
    }

    /// Adds `Forbidden: <detail>` about a value that is not null.
    pub(crate) fn deny(&self, detail: &str) {
        if self.is_set() {
            self.forbidden(detail);
        }
    }

    /// Adds `Forbidden: <detail>` about a value that is neither absent nor empty.
    pub(crate) fn deny_filled(&self, detail: &str) {
        if !self.is_empty() {
            self.forbidden(detail);
        }
    }

    /// Adds `Duplicate value` about a text that was seen before.
    pub(crate) fn unique(&self, seen: &mut HashSet<&'a str>) {
        if !seen.insert(self.text()) {
            self.duplicate();
        }
    }

    /// Adds `Required value: <detail>`.
    pub(crate) fn required(&self, detail: &str) {
        self.push(FieldError::required(self.path(), detail));
    }

    /// Adds `Invalid value: <value of the field>: <detail>`.
    pub(crate) fn invalid(&self, detail: &str) {
        self.invalid_as(self.value, detail);
    }

    /// Adds `Invalid value: <text of the field, or an empty text>: <detail>`.
    pub(crate) fn invalid_text(&self, detail: &str) {
        self.invalid_as(self.text(), detail);
    }

    /// Adds `Invalid value: <value>: <detail>`.
    pub(crate) fn invalid_as(&self, value: impl Serialize, detail: &str) {
        self.invalid_written(&shown(&json!(value)), detail);
    }

    /// Adds `Invalid value: <value>: <detail>` for each of these details.
    pub(crate) fn invalid_each(&self, value: impl Serialize, details: Vec<String>) {
        for detail in details {
            self.invalid_as(&value, &detail);
        }
    }

    /// Adds `Invalid value: <value>: <detail>, <detail>`, if there is a detail.
    pub(crate) fn invalid_joined(&self, value: impl Serialize, details: &[String]) {
        if !details.is_empty() {
            self.invalid_as(value, &details.join(","));
        }
    }

    /// Adds `Invalid value: <value, unquoted>: <detail>`.
    pub(crate) fn invalid_written(&self, value: &str, detail: &str) {
        self.push(FieldError::invalid(self.path(), value, detail));
    }

    /// Adds `Invalid value: <value of the field as Go prints this type>: <detail>`.
    pub(crate) fn invalid_printed(&self, kind: &GoType, detail: &str) {
        self.invalid_written(&self.printed(kind), detail);
    }

    /// Adds `Invalid value: <detail>`, without a value.
    pub(crate) fn invalid_bare(&self, detail: &str) {
        self.invalid_written(detail, "");
    }

    /// Adds `Forbidden: <detail>`.
    pub(crate) fn forbidden(&self, detail: &str) {
        self.push(FieldError::forbidden(self.path(), detail));
    }

    /// Adds `Duplicate value: <value of the field>`.
    pub(crate) fn duplicate(&self) {
        self.duplicate_as(self.value);
    }

    /// Adds `Duplicate value: <value>`.
    pub(crate) fn duplicate_as(&self, value: impl Serialize) {
        self.duplicate_written(&shown(&json!(value)));
    }

    /// Adds `Duplicate value: <value, unquoted>`.
    pub(crate) fn duplicate_written(&self, value: &str) {
        self.push(FieldError::duplicate(self.path(), value));
    }

    /// Adds `Not found: <value of the field>`.
    pub(crate) fn not_found(&self) {
        self.not_found_as(self.value, "");
    }

    /// Adds `Not found: <value>: <detail>`.
    pub(crate) fn not_found_as(&self, value: impl Serialize, detail: &str) {
        let mut text = shown(&json!(value));
        if !detail.is_empty() {
            text = format!("{text}: {detail}");
        }
        self.push(FieldError::not_found(self.path(), &text));
    }

    /// Adds `Unsupported value: <text of the field>: supported values: "a", "b"`.
    pub(crate) fn not_supported(&self, supported: &[&str]) {
        let value = match self.value {
            Value::Null => "\"\"".to_owned(),
            value => shown(value),
        };
        self.not_supported_written(&value, supported);
    }

    /// Adds `Unsupported value: <value, unquoted>: supported values: "a", "b"`.
    pub(crate) fn not_supported_written(&self, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
        self.push(FieldError::not_supported(self.path(), value, &supported));
    }

    /// Adds `Too long: <detail>` about a value of more than `most` bytes.
    pub(crate) fn at_most_bytes(&self, most: usize) {
        if self.len() > most {
            self.too_long(most);
        }
    }

    /// Adds `Too long: <detail>`.
    pub(crate) fn too_long(&self, most: usize) {
        let detail = format!("may not be more than {most} bytes");
        self.push(FieldError::too_long(self.path(), &detail));
    }

    /// Adds `Too many: <number>: …` about a longer list. Returns whether the list is longer.
    pub(crate) fn has_too_many(&self, most: usize) -> bool {
        let is_longer = self.len() > most;
        if is_longer {
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            self.push(FieldError::too_many(self.path(), self.len(), most));
        }
        is_longer
    }
}

/// Prints a value for a message. Label selectors have the field order of their Go type.
fn shown(value: &Value) -> String {
    if let Some(labels) = value.get("matchLabels")
        && let Some(expressions) = value.get("matchExpressions")
    {
        return go::escape_html(&format!(
            "{{\"matchLabels\":{labels},\"matchExpressions\":{expressions}}}"
        ));
    }
    go::print_in_error(value)
}
