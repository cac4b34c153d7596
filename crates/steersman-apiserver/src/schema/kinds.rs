//! Machine: what each of Kubernetes' own kinds fills in, sets by itself and refuses, by group and kind.

mod place;
mod check;
mod selector;

use serde_json::Value;

use crate::status::FieldError;

use super::resource::Resource;

use place::Errors;

/// What one kind does with its objects, beyond what all objects have in common. The metadata is
/// checked elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Fills in what a client left out (upstream: `pkg/apis/*/v1/defaults.go`).
    pub(crate) defaults: fn(&mut Value),
    /// Sets and drops what a client may not decide, before validation (upstream: the strategy's
    /// `PrepareForCreate` without, and `PrepareForUpdate` with an old object). The status is kept
    /// or dropped already.
    pub(crate) prepare: fn(&mut Value, Option<&Value>),
    /// Checks a new object, or with an old one an update by the main path.
    pub(crate) validate: fn(&Value, Option<&Value>) -> Errors,
    /// Checks a write to the status subresource.
    pub(crate) validate_status: fn(&Value, &Value) -> Errors,
}

impl Kind {
    /// A kind without rules of its own.
    const PLAIN: Self = Self {
        defaults: |_| {},
        prepare: |_, _| {},
        validate: |_, _| Errors::default(),
        validate_status: |_, _| Errors::default(),
    };
}

/// The table: the rules of a built-in kind, if they are kept here.
pub(crate) fn of(resource: &Resource) -> Option<&'static Kind> {
    if !resource.built_in {
        return None;
    }
    Some(match (resource.group.as_str(), resource.kind.as_str()) {
        _ => return None,
    })
}

/// Checks a new object, or an update of `old`.
#[must_use]
pub(crate) fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    (kind.validate)(object, old).into()
}

/// Checks what a write to the status subresource brings.
#[must_use]
pub(crate) fn validate_status(kind: &Kind, object: &Value, old: &Value) -> Vec<FieldError> {
    (kind.validate_status)(object, old).into()
}
