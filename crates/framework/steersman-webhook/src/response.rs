//! Words: the response of an admission webhook.

use std::collections::BTreeMap;
use std::fmt;

use json_patch::Patch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use crate::refusal::{Refusal, failed};

/// The response of a webhook to one request.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct AdmissionResponse {
    pub(crate) allowed: bool,
    pub(crate) status: Option<Box<Status>>,
    pub(crate) patch: Patch,
    pub(crate) warnings: Vec<String>,
    pub(crate) audit_annotations: BTreeMap<String, String>,
}

impl AdmissionResponse {
    /// Allows the request.
    pub fn allowed() -> Self {
        Self {
            allowed: true,
            ..Self::default()
        }
    }

    /// Refuses the request with a 403 and this text, which the user of the request reads.
    pub fn denied(message: impl fmt::Display) -> Self {
        Refusal::denied(message).into()
    }

    /// Refuses the request because the webhook could not decide.
    pub fn errored(code: u16, message: impl fmt::Display) -> Self {
        failed(code, message).into()
    }

    /// Allows the request and changes its object. Only mutating webhooks may change objects.
    pub fn patched(patch: Patch) -> Self {
        Self {
            patch,
            ..Self::allowed()
        }
    }

    /// Allows the request, and changes its object from `original` to `changed`.
    pub fn patched_between(original: &Value, changed: &Value) -> Self {
        Self::patched(json_patch::diff(original, changed))
    }

    /// Adds a warning, which kubectl shows. The API server cuts a warning after 256 characters or fewer.
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the audit event of the request. The API server puts the name of the webhook before the
    /// key.
    pub fn audit_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit_annotations.insert(key.into(), value.into());
        self
    }

    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the changes of the object.
    pub fn patch(&self) -> &Patch {
        &self.patch
    }

    /// Returns the status code for the metrics: 200 if allowed, otherwise the code of the refusal.
    pub(crate) fn code(&self) -> u16 {
        let code = self.status.as_ref().and_then(|status| status.code);
        let code = code.and_then(|code| u16::try_from(code).ok());
        code.unwrap_or(if self.allowed { 200 } else { 403 })
    }
}

impl From<Refusal> for AdmissionResponse {
    fn from(refusal: Refusal) -> Self {
        Self {
            status: Some(refusal.status),
            ..Self::default()
        }
    }
}

impl From<Result<(), Refusal>> for AdmissionResponse {
    fn from(result: Result<(), Refusal>) -> Self {
        match result {
            Ok(()) => Self::allowed(),
            Err(refusal) => refusal.into(),
        }
    }
}
