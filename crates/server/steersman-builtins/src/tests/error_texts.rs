//! Errors as texts.

use steersman_apimachinery::status::FieldError;

use crate::Errors;

/// Returns each error as its field and its message.
pub(crate) fn error_texts(errors: Errors) -> Vec<String> {
    let errors: Vec<FieldError> = errors.into();
    errors
        .into_iter()
        .map(|error| format!("{} {}", error.field, error.message))
        .collect()
}
