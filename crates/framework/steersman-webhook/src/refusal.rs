//! Words: the refusal of an admission request.

use std::error::Error as StdError;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use steersman_object::{Gvk, report};

use crate::field_errors::FieldErrors;

/// The reason why a defaulter or a validator refuses a request.
///
/// Made from any error by `?`, or by one of the constructors. It does not implement [`std::error::Error`], so that
/// `?` can convert every type that does. An error of the API server keeps its code, reason and details, also inside
/// an error of the client; any other error refuses the request with a 403, as in controller-runtime.
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("Refusal({status:?})")]
#[display("{}", status.message.as_deref().unwrap_or_default())]
pub struct Refusal {
    pub(crate) status: Box<Status>,
}

impl Refusal {
    /// Refuses a request with a 403 and this text, which the user of the request reads.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// Refuses a request with a code of at least 400, a reason such as `Conflict`, and a text.
    pub fn new(code: u16, reason: &str, message: impl fmt::Display) -> Self {
        Self::from_status(Status {
            code: Some(code.into()),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            message: Some(message.to_string()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        })
    }

    /// Refuses an object with a 422 that lists the errors of its fields.
    pub fn invalid(kind: &Gvk, name: &str, errors: &FieldErrors) -> Self {
        Self::from_status(errors.status(kind, name))
    }

    /// Refuses a request with this status, unchanged.
    #[must_use]
    pub fn from_status(status: Status) -> Self {
        Self {
            status: Box::new(status),
        }
    }

    /// Returns the status of the refusal.
    pub fn status(&self) -> &Status {
        &self.status
    }
}

impl<E: StdError + 'static> From<E> for Refusal {
    fn from(error: E) -> Self {
        match status_of(&error) {
            Some(status) => Self::from_status(status),
            None => Self::denied(report(&error)),
        }
    }
}

/// Returns the API server's status in an error or in one of its causes.
fn status_of(error: &(dyn StdError + 'static)) -> Option<Status> {
    let mut next = Some(error);
    while let Some(error) = next {
        let refused = error.downcast_ref::<steersman_api::Error>();
        // The causes of a transparent error do not include the error that it wraps, so this one is checked here.
        let inside = error.downcast_ref::<steersman_client::Error>();
        let inside = inside.and_then(|error| match error {
            steersman_client::Error::Api(error) => Some(error),
            _ => None,
        });
        if let Some(status) = refused.or(inside).and_then(steersman_api::Error::status) {
            let status = serde_json::to_value(status).ok()?;
            return serde_json::from_value(status).ok();
        }
        next = error.source();
    }
    None
}

/// Returns the refusal of a request that the webhook could not decide because of an error of its own.
pub(crate) fn failed(code: u16, message: impl fmt::Display) -> Refusal {
    let reason = match code {
        400 => "BadRequest",
        504 => "Timeout",
        _ => "InternalError",
    };
    Refusal::new(code, reason, message)
}
