//! Words: errors in the fields of an object, worded as Kubernetes does.
//!
//! Kubernetes source: `apimachinery/pkg/util/validation/field/errors.go` and `NewInvalid` of
//! `apimachinery/pkg/api/errors`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::Serialize;
use steersman_object::Gvk;

/// A list of errors in the fields of an object. A validator collects them and refuses an object with
/// [`Refusal::invalid`](crate::Refusal::invalid) if there is one.
///
/// The texts, the reasons and the resulting status are those of the API server's own validation, so that kubectl and
/// other clients show them in the same way.
///
/// ```
/// use steersman_webhook::FieldErrors;
///
/// let mut errors = FieldErrors::new();
/// errors.required("spec.host", "a website needs a name in the DNS");
/// errors.invalid("spec.replicas", &-1, "must be greater than or equal to 0");
/// errors.not_supported("spec.class", &"gold", ["basic", "fast"]);
/// assert_eq!(errors.to_string(), "[spec.host: Required value: a website needs a name in the DNS, \
///     spec.replicas: Invalid value: -1: must be greater than or equal to 0, \
///     spec.class: Unsupported value: \"gold\": supported values: \"basic\", \"fast\"]");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct FieldErrors {
    causes: Vec<FieldError>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldError {
    field: String,
    reason: &'static str,
    body: String,
}

impl FieldErrors {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field that is missing.
    pub fn required(&mut self, field: &str, detail: &str) {
        self.add(field, "FieldValueRequired", "Required value", None, detail);
    }

    /// Adds a field with a value that is not allowed; `detail` states the allowed values.
    pub fn invalid(&mut self, field: &str, value: &impl Serialize, detail: &str) {
        let value = Some(shown(value));
        self.add(field, "FieldValueInvalid", "Invalid value", value, detail);
    }

    /// Adds a value that must be one of `supported`.
    pub fn not_supported<'a>(
        &mut self,
        field: &str,
        value: &impl Serialize,
        supported: impl IntoIterator<Item = &'a str>,
    ) {
        let supported: Vec<String> = supported
            .into_iter()
            .map(|value| format!("{value:?}"))
            .collect();
        let detail = match &*supported {
            [] => String::new(),
            some => format!("supported values: {}", some.join(", ")),
        };
        let value = Some(shown(value));
        let reason = "FieldValueNotSupported";
        self.add(field, reason, "Unsupported value", value, &detail);
    }

    /// Adds a field that must not be set or changed in this situation.
    pub fn forbidden(&mut self, field: &str, detail: &str) {
        self.add(field, "FieldValueForbidden", "Forbidden", None, detail);
    }

    /// Adds a list value that occurs twice.
    pub fn duplicate(&mut self, field: &str, value: &impl Serialize) {
        let value = Some(shown(value));
        self.add(field, "FieldValueDuplicate", "Duplicate value", value, "");
    }

    /// Adds a field that refers to an object that does not exist.
    pub fn not_found(&mut self, field: &str, value: &impl Serialize) {
        let value = Some(shown(value));
        self.add(field, "FieldValueNotFound", "Not found", value, "");
    }

    /// Adds a field that an update has changed although it is immutable.
    pub fn immutable(&mut self, field: &str, value: &impl Serialize) {
        self.invalid(field, value, "field is immutable");
    }

    /// Returns whether the list has no error.
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    fn add(
        &mut self,
        field: &str,
        reason: &'static str,
        title: &str,
        value: Option<String>,
        detail: &str,
    ) {
        let value = value.map(|value| format!(": {value}")).unwrap_or_default();
        let detail = match detail {
            "" => String::new(),
            detail => format!(": {detail}"),
        };
        self.causes.push(FieldError {
            field: field.to_owned(),
            reason,
            body: format!("{title}{value}{detail}"),
        });
    }

    pub(crate) fn status(&self, kind: &Gvk, name: &str) -> Status {
        let qualified = match kind.group() {
            "" => kind.kind().to_owned(),
            group => format!("{}.{group}", kind.kind()),
        };
        let causes = self.causes.iter().map(|cause| StatusCause {
            field: Some(cause.field.clone()),
            message: Some(cause.body.clone()),
            reason: Some(cause.reason.to_owned()),
        });
        Status {
            code: Some(422),
            reason: Some("Invalid".to_owned()),
            message: Some(format!("{qualified} {name:?} is invalid: {self}")),
            details: Some(StatusDetails {
                name: Some(name.to_owned()).filter(|name| !name.is_empty()),
                group: Some(kind.group().to_owned()).filter(|group| !group.is_empty()),
                kind: Some(kind.kind().to_owned()),
                causes: Some(causes.collect()),
                ..StatusDetails::default()
            }),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }
    }
}

impl std::fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = self
            .causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.body));
        let all: Vec<String> = each.collect();
        match &*all {
            [one] => f.write_str(one),
            some => write!(f, "[{}]", some.join(", ")),
        }
    }
}

/// Returns a value as JSON; strings are quoted.
fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("({error})"))
}
