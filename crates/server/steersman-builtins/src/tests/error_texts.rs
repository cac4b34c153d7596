//! Errors as texts.

use steersman_apimachinery::status::FieldError;

/// Returns each error as its field and its message.
pub(crate) fn error_texts(errors: Vec<FieldError>) -> Vec<String> {
    errors
        .into_iter()
        .map(|error| format!("{} {}", error.field, error.message))
        .collect()
}
