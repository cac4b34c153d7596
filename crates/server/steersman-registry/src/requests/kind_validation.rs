//! Machine: the built-in kinds' own validation rules.

use serde_json::Value;
use steersman_apimachinery::status::FieldError;
use steersman_builtins::events;
use steersman_schema::resource::Resource;

/// Validates everything outside the metadata.
pub(crate) fn check(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if let Some(strategy) = steersman_builtins::of(resource) {
        return steersman_builtins::validate(strategy, object, old);
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("" | "events.k8s.io", "Event") => events::check(resource, object, old),
        _ => Vec::new(),
    }
}

/// Validates a write to the status subresource of a built-in kind.
pub(crate) fn check_status(resource: &Resource, object: &Value, old: &Value) -> Vec<FieldError> {
    steersman_builtins::of(resource).map_or_else(Vec::new, |strategy| {
        steersman_builtins::validate_status(strategy, object, old)
    })
}
