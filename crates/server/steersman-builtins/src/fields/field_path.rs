//! Words: `FieldPath`, a value in an object with its path in messages, and `Errors`, the errors of
//! one object.

use std::rc::Rc;

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;

static NULL: Value = Value::Null;

/// A value and its path. The value of an absent field is null.
#[derive(Debug, Clone)]
pub(crate) struct FieldPath<'a> {
    trail: Trail<'a>,
    value: &'a Value,
}

/// The segments of the path to a value. Most values are read and never named in a message, so the text of the path
/// is built only on request.
#[derive(Debug, Clone)]
struct Trail<'a> {
    /// The beginning of the path, if the path was given as text or has more than `ROOM` segments.
    base: Option<Rc<str>>,
    segments: [Segment<'a>; ROOM],
    len: usize,
}

/// The segment of a path that leads from a value to a value inside it.
#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    /// `.name`
    Name(&'a str),
    /// `[key]`
    Key(&'a str),
    /// `[0]`
    Index(usize),
}

/// The number of segments that a trail stores. Nearly every field has a shorter path.
const ROOM: usize = 14;

impl<'a> Trail<'a> {
    fn from(base: &str) -> Self {
        Self {
            base: (!base.is_empty()).then(|| base.into()),
            segments: [Segment::Index(0); ROOM],
            len: 0,
        }
    }

    fn then(&self, segment: Segment<'a>) -> Self {
        let mut longer = if self.len == ROOM {
            Self::from(&self.text())
        } else {
            self.clone()
        };
        longer.segments[longer.len] = segment;
        longer.len += 1;
        longer
    }

    fn text(&self) -> String {
        let mut text = self.base.as_deref().unwrap_or_default().to_owned();
        for segment in &self.segments[..self.len] {
            match segment {
                Segment::Name(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Segment::Key(key) => text.extend(["[", key, "]"]),
                Segment::Index(index) => text.extend(["[", &index.to_string(), "]"]),
            }
        }
        text
    }
}

impl<'a> FieldPath<'a> {
    /// Returns the object itself, at the empty path.
    pub(crate) fn root(object: &'a Value) -> Self {
        Self::new("", object)
    }

    /// Returns a value that messages name by this path.
    pub(crate) fn new(path: impl AsRef<str>, value: &'a Value) -> Self {
        let trail = Trail::from(path.as_ref());
        Self { trail, value }
    }

    fn then(&self, segment: Segment<'a>, value: Option<&'a Value>) -> Self {
        Self {
            trail: self.trail.then(segment),
            value: value.unwrap_or(&NULL),
        }
    }

    /// Returns the member of this name: `path.name`.
    pub(crate) fn at(&self, name: &'a str) -> Self {
        self.named(name, self.value.get(name))
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

    /// Iterates over the elements of a list: `path[0]`, `path[1]` and so on. A value that is not a
    /// list has no elements.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let list = self.clone();
        let items = self.value.as_array().into_iter().flatten();
        let items = items.enumerate();
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

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the text, or an empty text for a value of another type.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the integer, if the value is one.
    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns the integer, or zero for a value of another type.
    pub(crate) fn int(&self) -> i64 {
        self.number().unwrap_or_default()
    }

    /// Returns whether the value is `true`.
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

/// The errors of one object, in the order of the checks.
#[derive(Debug, Default)]
pub struct Errors(Vec<FieldError>);

impl From<Errors> for Vec<FieldError> {
    fn from(errors: Errors) -> Self {
        errors.0
    }
}

impl Errors {
    pub(crate) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Adds `Required value: <detail>`.
    pub(crate) fn required(&mut self, at: &FieldPath<'_>, detail: &str) {
        self.push(FieldError::required(at.path(), detail));
    }

    /// Adds `Invalid value: <value of the field>: <detail>`.
    pub(crate) fn invalid(&mut self, at: &FieldPath<'_>, detail: &str) {
        self.invalid_as(at, at.value(), detail);
    }

    /// Adds `Invalid value: <text of the field>: <detail>`. An absent field is shown as an empty
    /// text.
    pub(crate) fn invalid_text(&mut self, at: &FieldPath<'_>, detail: &str) {
        self.invalid_as(at, &Value::from(at.text()), detail);
    }

    /// Adds `Invalid value: <value>: <detail>`.
    pub(crate) fn invalid_as(&mut self, at: &FieldPath<'_>, value: &Value, detail: &str) {
        self.push(FieldError::invalid(at.path(), &shown(value), detail));
    }

    /// Adds `Forbidden: <detail>`.
    pub(crate) fn forbidden(&mut self, at: &FieldPath<'_>, detail: &str) {
        self.push(FieldError::forbidden(at.path(), detail));
    }

    /// Adds `Duplicate value: <value of the field>`.
    pub(crate) fn duplicate(&mut self, at: &FieldPath<'_>) {
        self.push(FieldError::duplicate(at.path(), &shown(at.value())));
    }

    /// Adds `Duplicate value: <value>`.
    pub(crate) fn duplicate_as(&mut self, at: &FieldPath<'_>, value: &Value) {
        self.push(FieldError::duplicate(at.path(), &shown(value)));
    }

    /// Adds `Invalid value: <value, unquoted>: <detail>`.
    pub(crate) fn invalid_written(&mut self, at: &FieldPath<'_>, value: &str, detail: &str) {
        self.push(FieldError::invalid(at.path(), value, detail));
    }

    /// Adds `Invalid value: <detail>`, without a value.
    pub(crate) fn invalid_bare(&mut self, at: &FieldPath<'_>, detail: &str) {
        self.push(FieldError::invalid(at.path(), detail, ""));
    }

    /// Adds `Unsupported value: <value, unquoted>: supported values: "a", "b"`.
    pub(crate) fn not_supported_written(
        &mut self,
        at: &FieldPath<'_>,
        value: &str,
        supported: &[&str],
    ) {
        let supported: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
        self.push(FieldError::not_supported(at.path(), value, &supported));
    }

    /// Adds `Not found: <value>: <detail>`.
    pub(crate) fn not_found_as(&mut self, at: &FieldPath<'_>, value: &Value, detail: &str) {
        let mut text = shown(value);
        if !detail.is_empty() {
            text = format!("{text}: {detail}");
        }
        self.push(FieldError::not_found(at.path(), &text));
    }

    /// Adds `Not found: <value of the field>`.
    pub(crate) fn not_found(&mut self, at: &FieldPath<'_>) {
        self.push(FieldError::not_found(at.path(), &shown(at.value())));
    }

    /// Adds `Unsupported value: <text of the field>: supported values: "a", "b"`.
    pub(crate) fn not_supported(&mut self, at: &FieldPath<'_>, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
        let value = match at.value() {
            Value::Null => "\"\"".to_owned(),
            value => shown(value),
        };
        self.push(FieldError::not_supported(at.path(), &value, &supported));
    }

    /// Adds `Too long: <detail>`.
    pub(crate) fn too_long(&mut self, at: &FieldPath<'_>, most: usize) {
        let detail = format!("may not be more than {most} bytes");
        self.push(FieldError::too_long(at.path(), &detail));
    }

    /// Adds `Too many: <number>: must have at most <most> items`.
    pub(crate) fn too_many(&mut self, at: &FieldPath<'_>, most: u64) {
        self.push(FieldError::too_many(at.path(), at.len(), most));
    }
}

/// Prints a value for a message. Label selectors have the field order of their Go type, which is
/// not alphabetical.
fn shown(value: &Value) -> String {
    if let Some(labels) = value.get("matchLabels")
        && let Some(expressions) = value.get("matchExpressions")
    {
        return go::escape_html(&format!(
            "{{\"matchLabels\":{labels},\"matchExpressions\":{expressions}}}"
        ));
    }
    go::printed(value)
}
