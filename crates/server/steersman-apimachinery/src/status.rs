//! Words: the `Status` object of failures, with the texts of kube-apiserver.

use serde::{Deserialize, Serialize};

use crate::go;

/// A response of the kind `Status`: the failure of a verb, or the success of a delete that returns no object.
///
/// Serialises to the body of the response. `code` is the HTTP status of the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "Status", rename_all = "camelCase")]
#[non_exhaustive]
pub struct Status {
    /// The API version, which is always `v1`.
    #[serde(skip_deserializing)]
    api_version: ApiVersion,
    /// The list metadata; empty, except for an expired list that can be continued.
    pub metadata: StatusMeta,
    /// `Failure` or `Success`.
    pub status: String,
    /// The outcome of the request as a text for humans.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The outcome of the request as a constant for programs; empty if kube-apiserver gives none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object or resource of the request, and the causes of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status code; zero (and absent) on a success without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ApiVersion {
    #[default]
    V1,
}

/// The metadata of a [`Status`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatusMeta {
    /// A token with which an expired list may be continued at a newer revision.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// The resource of a [`Status`] and the causes of a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the resource; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource's plural name, or the kind for reason `Invalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object that a delete removed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes of the failure, usually one per field error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds to wait before a retry; zero if the response does not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One cause of a failure, usually about one field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The machine-readable reason, for instance `FieldValueInvalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The text after the field's path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, for instance `spec.replicas`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// A violation of a rule about one field, which becomes a [`Cause`] and a part of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The reason of the cause, for instance `FieldValueRequired`.
    pub reason: &'static str,
    /// Path of the field; `<nil>` for a rule that is not about a field.
    pub field: String,
    /// The text after the path in the message, for instance `Required value: name or generateName is required`.
    pub message: String,
}

impl FieldError {
    /// Creates the error `Required value`, with an explanation if `detail` is not empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::of("FieldValueRequired", field, "Required value", detail)
    }

    /// Creates the error `Invalid value: <value>: <detail>`; `value` is printed as in Go.
    pub fn invalid(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let head = format!("Invalid value: {value}");
        Self::of("FieldValueInvalid", field, &head, detail)
    }

    /// Creates the error `Invalid value: <detail>`, for a value that is too large to print.
    pub fn invalid_hidden(field: impl Into<String>, detail: &str) -> Self {
        Self::of("FieldValueInvalid", field, "Invalid value", detail)
    }

    /// Creates the error `Internal error: <detail>`.
    pub fn internal(field: impl Into<String>, detail: &str) -> Self {
        Self::of("InternalError", field, "Internal error", detail)
    }

    /// Creates an error with the message of [`FieldError::invalid`] and the reason `FieldValueTypeInvalid`.
    pub fn type_invalid(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let head = format!("Invalid value: {value}");
        Self::of("FieldValueTypeInvalid", field, &head, detail)
    }

    /// Creates the error `Unsupported value: <value>: supported values: "a", "b"`.
    pub fn not_supported(field: impl Into<String>, value: &str, supported: &[String]) -> Self {
        let mut message = format!("Unsupported value: {value}");
        if !supported.is_empty() {
            message.push_str(": supported values: ");
            message.push_str(&supported.join(", "));
        }
        Self::of("FieldValueNotSupported", field, &message, "")
    }

    /// Creates the error `Forbidden: <detail>`.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::of("FieldValueForbidden", field, "Forbidden", detail)
    }

    /// Creates the error `Duplicate value: <value>`.
    pub fn duplicate(field: impl Into<String>, value: &str) -> Self {
        Self::of("FieldValueDuplicate", field, "Duplicate value", value)
    }

    /// Creates the error `Not found: <value>`.
    pub fn not_found(field: impl Into<String>, value: &str) -> Self {
        Self::of("FieldValueNotFound", field, "Not found", value)
    }

    /// Creates the error `Too long: <detail>`.
    pub fn too_long(field: impl Into<String>, detail: &str) -> Self {
        Self::of("FieldValueTooLong", field, "Too long", detail)
    }

    /// Creates the error `Too many: <actual>: must have at most <most> items`.
    pub fn too_many(field: impl Into<String>, actual: usize, most: u64) -> Self {
        let noun = if most == 1 { "item" } else { "items" };
        let message = format!("Too many: {actual}: must have at most {most} {noun}");
        Self::of("FieldValueTooMany", field, &message, "")
    }

    fn of(reason: &'static str, field: impl Into<String>, head: &str, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        Self {
            reason,
            field: field.into(),
            message: format!("{head}{colon}{detail}"),
        }
    }
}

/// The group and the plural name of the resource that a failure is about.
#[derive(Debug, Clone, Copy)]
pub struct GroupResource<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural name of the resource, or the kind for messages with the kind.
    pub resource: &'a str,
}

impl<'a> GroupResource<'a> {
    /// Creates the name of a resource in a group.
    pub fn new(group: &'a str, resource: &'a str) -> Self {
        Self { group, resource }
    }

    /// Returns the resource with its group and the quoted name of an object, as in messages about the object.
    fn named(&self, name: &str) -> String {
        format!("{} {}", self.qualified(), go::quote(name))
    }

    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(&self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }
}

impl Status {
    /// Creates a failure with a code, a reason, which may be empty, and a message, without details.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            api_version: ApiVersion::V1,
            metadata: StatusMeta::default(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code,
        }
    }

    /// Creates the response to a delete that returns no object.
    pub fn deleted(resource: GroupResource<'_>, name: &str, uid: &str) -> Self {
        let mut details = resource.details(name);
        uid.clone_into(&mut details.uid);
        Self {
            details: Some(Box::new(details)),
            status: "Success".to_owned(),
            ..Self::failure(0, "", "")
        }
    }

    /// Creates 404: `configmaps "x" not found`.
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{} not found", resource.named(name));
        Self::failure(404, "NotFound", message).with_details(resource.details(name))
    }

    /// Creates the 404 for a path that no resource serves.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, "NotFound", message).with_details(Details::default())
    }

    /// Creates 409 AlreadyExists: `configmaps "x" already exists`.
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{} already exists", resource.named(name));
        Self::failure(409, "AlreadyExists", message).with_details(resource.details(name))
    }

    /// Creates 409 Conflict: `Operation cannot be fulfilled on configmaps "x": <why>`.
    pub fn conflict(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let object = resource.named(name);
        let message = format!("Operation cannot be fulfilled on {object}: {why}");
        Self::failure(409, "Conflict", message).with_details(resource.details(name))
    }

    /// Creates 403: `configmaps "x" is forbidden: <why>`.
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let object = match name {
            "" => resource.qualified(),
            name => resource.named(name),
        };
        let message = format!("{object} is forbidden: {why}");
        Self::failure(403, "Forbidden", message).with_details(resource.details(name))
    }

    /// Creates 422: `ConfigMap "x" is invalid: <field errors>`; `resource` has the kind instead of the plural name.
    pub fn invalid(resource: GroupResource<'_>, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors {
            let text = format!("{}: {}", error.field, error.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.len() {
            0 => String::new(),
            1 => format!(": {}", texts[0]),
            _ => format!(": [{}]", texts.join(", ")),
        };
        let message = format!("{} is invalid{list}", resource.named(name));
        let mut details = resource.details(name);
        let cause = |error: &FieldError| Cause {
            reason: error.reason.to_owned(),
            message: error.message.clone(),
            field: error.field.clone(),
        };
        details.causes = errors.iter().map(cause).collect();
        Self::failure(422, "Invalid", message).with_details(details)
    }

    /// Creates 422 for an invalid query of a list or watch, with the resource `ListOptions.meta.k8s.io`.
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid(GroupResource::new("meta.k8s.io", kind), "", errors)
    }

    /// Creates 400 with reason `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// Creates 500 with reason `InternalError`, and `why` as its only cause.
    pub fn internal(why: String) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause {
            message: why,
            ..Cause::default()
        };
        let details = Details {
            causes: vec![cause],
            ..Details::default()
        };
        Self::failure(500, "InternalError", message).with_details(details)
    }

    /// Creates 500 without a reason, which is kube-apiserver's response to an error that is no `Status`.
    pub fn internal_plain(message: impl Into<String>) -> Self {
        Self::failure(500, "", message)
    }

    /// Creates 405 for a method that an existing path does not have.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// Creates 405 for a verb that custom resources do not support.
    pub fn method_not_supported(resource: GroupResource<'_>, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind \"{}\"",
            resource.qualified()
        );
        Self::failure(405, "MethodNotAllowed", message).with_details(resource.details(""))
    }

    /// Creates 405 for a create of a custom resource while its CRD is being deleted.
    pub fn terminating(resource: GroupResource<'_>) -> Self {
        let message = "create not allowed while custom resource definition is terminating";
        Self::failure(405, "MethodNotAllowed", message).with_details(resource.details(""))
    }

    /// Creates 406 for a request that accepts none of the media types that the server can produce.
    pub fn not_acceptable(producible: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            producible.join(", ")
        );
        Self::failure(406, "NotAcceptable", message)
    }

    /// Creates 415 for a body with another media type than those `accepted`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// Creates 413 for a body that is longer than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// Creates 410 with the reason `Expired` and this message.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// Creates 410 for a revision that is older than the oldest retained one: `too old resource version: X (Y)`.
    pub fn too_old(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// Creates 504 for a revision that the store has not reached.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let message =
            format!("Timeout: Too large resource version: {requested}, current: {current}");
        Self::failure(504, "Timeout", message).with_details(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// Returns whether this status was made by [`too_large_resource_version`](Self::too_large_resource_version).
    pub fn is_too_large_resource_version(&self) -> bool {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        let mut reasons = causes.map(|cause| cause.reason.as_str());
        reasons.any(|reason| reason == "ResourceVersionTooLarge")
    }

    /// Returns the status with these details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Returns the status with a hint to retry after `seconds`.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Returns whether this status is the 404 for an object that does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_serialises_as_recorded_and_parses_back() {
        let status = Status::not_found(GroupResource::new("apps", "deployments"), "x");
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(
            written,
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Failure", "message": "deployments.apps \"x\" not found",
                "reason": "NotFound", "code": 404,
                "details": {"name": "x", "group": "apps", "kind": "deployments"}})
        );
        assert_eq!(serde_json::from_value::<Status>(written).unwrap(), status);
    }

    #[test]
    fn equal_field_errors_appear_once_in_the_message_and_all_in_the_causes() {
        let error = FieldError::invalid("metadata.uid", "\"x\"", "field is immutable");
        let other = FieldError::required("spec", "");
        let errors = [error.clone(), error, other];
        let status = Status::invalid(GroupResource::new("", "Pod"), "p", &errors);
        assert_eq!(
            status.message,
            "Pod \"p\" is invalid: [metadata.uid: Invalid value: \"x\": field is immutable, spec: Required value]"
        );
        assert_eq!(status.details.map(|details| details.causes.len()), Some(3));
    }
}
