//! Machine: decodes and checks what clients send: query parameters, kind, unknown fields, defaults, validation.

use serde_json::Value;
use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_apimachinery::{go, json, order};
use steersman_builtins::{crd, custom, defaults, events};
use steersman_schema::resource::Resource;
use steersman_schema::types;

use super::catalogue::Catalogue;
use super::options::WriteOptions;
use super::{manager, metadata};
use crate::values::{items, text};

/// The name of the Go scheme of the built-in kinds in kube-apiserver's messages: the line of code that creates it.
pub(crate) const LEGACY_SCHEME: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";

/// The query parameter `fieldValidation`: whether fields that the object's kind does not have are refused or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Fields that the kind does not have are dropped without a warning.
    Ignore,
    /// Fields that the kind does not have are dropped with a warning. This is the default.
    Warn,
    /// A request with fields that the kind does not have is refused.
    Strict,
}

/// The kind of request that a written object comes from. It decides about pruning and the wording of some errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectOrigin {
    /// The client sent the object in a POST or PUT.
    Body,
    /// The object is the result of a patch.
    Patch {
        /// Whether the patch changed anything in `metadata`.
        reached_metadata: bool,
    },
    /// The object is the result of a server-side apply, which has checked it against its type. So a custom resource
    /// gets its defaults, but is not pruned; a null that the schema does not allow is refused later.
    Apply,
}

pub(crate) fn dry_run(values: &[String], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|value| value != "All") {
        let listed = go::print_in_error(&Value::from(values.to_vec()));
        let supported = ["\"All\"".to_owned()];
        errors.push(FieldError::not_supported("dryRun", &listed, &supported));
    }
    !values.is_empty()
}

/// Checks the query parameters of a write; `kind` is the name that errors use, for instance `CreateOptions`. Returns
/// whether the write is a dry run, and what happens to unknown fields.
///
/// # Errors
/// 422 with an error for each invalid parameter.
pub fn options(kind: &str, options: &WriteOptions) -> Result<(bool, FieldValidation), Status> {
    let mut errors = Vec::new();
    if kind == "PatchOptions" && options.force.is_some() {
        let detail = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden("force", detail));
    }
    further_options(kind, options, errors)
}

pub(crate) fn apply_options(options: &WriteOptions) -> Result<(bool, FieldValidation), Status> {
    let mut errors = Vec::new();
    if options.field_manager.as_deref().is_none_or(str::is_empty) {
        let detail = "is required for apply patch";
        errors.push(FieldError::required("fieldManager", detail));
    }
    further_options("PatchOptions", options, errors)
}

fn further_options(
    kind: &str,
    options: &WriteOptions,
    mut errors: Vec<FieldError>,
) -> Result<(bool, FieldValidation), Status> {
    manager::check(options.field_manager.as_deref(), &mut errors);
    let dry = dry_run(&options.dry_run, &mut errors);
    let validation = match options.field_validation.as_deref() {
        None | Some("" | "Warn") => FieldValidation::Warn,
        Some("Ignore") => FieldValidation::Ignore,
        Some("Strict") => FieldValidation::Strict,
        Some(other) => {
            let supported = ["", "Ignore", "Strict", "Warn"].map(|s| format!("\"{s}\""));
            let (field, other) = ("fieldValidation", go::quote(other));
            errors.push(FieldError::not_supported(field, &other, &supported));
            FieldValidation::Warn
        }
    };
    refuse_options(kind, &errors)?;
    Ok((dry, validation))
}

/// Fails with 422 if there are errors in query parameters; `kind` names the options, such as `CreateOptions`.
pub(crate) fn refuse_options(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    match errors {
        [] => Ok(()),
        errors => Err(Status::invalid_options(kind, errors)),
    }
}

/// Refuses with 400 or 422 a body with another kind or version than the resource. A body of a built-in kind may name
/// neither; then sets both.
pub(crate) fn check_kind(
    catalogue: &Catalogue,
    resource: &Resource,
    body: &mut Value,
) -> Result<(), Status> {
    let expected = resource.api_version();
    if body.is_null() {
        *body = Value::Object(serde_json::Map::new());
    }
    if !body.is_object() {
        let kind = &resource.kind;
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; the body is no JSON object"
        )));
    }
    let kind = text(&body["kind"]).to_owned();
    let version = text(&body["apiVersion"]).to_owned();
    if resource.built_in {
        check_built_in(catalogue, resource, (&version, &kind), &expected)?;
    } else {
        if kind.is_empty() {
            let kind = &resource.kind;
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{body}'"
            )));
        }
        if version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != resource.kind {
            let quoted = go::quote(&kind);
            let detail = format!("must be {}", resource.kind);
            let error = FieldError::invalid("kind", &quoted, &detail);
            let group_kind = GroupResource::new(&resource.group, &kind);
            let name = metadata::text(body, "name");
            return Err(Status::invalid(group_kind, name, &[error]));
        }
    }
    body["kind"] = Value::String(resource.kind.clone());
    body["apiVersion"] = Value::String(expected);
    Ok(())
}

fn check_built_in<'a>(
    catalogue: &Catalogue,
    resource: &'a Resource,
    (version, kind): (&'a str, &'a str),
    expected: &'a str,
) -> Result<(), Status> {
    let or_own = |sent: &'a str, own: &'a str| if sent.is_empty() { own } else { sent };
    let (kind, version) = (or_own(kind, &resource.kind), or_own(version, expected));
    if kind == resource.kind && version == expected {
        return Ok(());
    }
    if kind == resource.kind && catalogue.reads_version(resource, version) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    let why = unconvertible(catalogue, go_type_of(resource), version, kind);
    Err(metadata::unhandled((version, kind), &resource.kind, &why))
}

/// Returns the package and the name of a built-in resource's Go type, and the Go scheme that knows this type, for
/// error messages as in kube-apiserver.
pub(crate) fn go_type_of(resource: &Resource) -> (&str, &str, &str) {
    let group = resource.group.split('.').next().unwrap_or_default();
    let package = if group.is_empty() { "core" } else { group };
    (package, &resource.kind, LEGACY_SCHEME)
}

/// Returns upstream's error message for an object of another kind than the Go type to which it is decoded.
pub(crate) fn unconvertible(
    catalogue: &Catalogue,
    (package, wanted, scheme): (&str, &str, &str),
    version: &str,
    kind: &str,
) -> String {
    let short = version.rsplit('/').next().unwrap_or_default();
    if !package.is_empty() && catalogue.knows_kind(version, kind) {
        return format!("converting ({short}.{kind}) to ({package}.{wanted}): unknown conversion");
    }
    let (kind, version) = (go::quote(kind), go::quote(version));
    format!("no kind {kind} is registered for version {version} in scheme \"{scheme}\"")
}

/// Decodes an object that has the kind of the resource: checks types, drops or refuses unknown fields, and sets the
/// defaults of a custom resource. Returns warnings about unknown fields.
pub(crate) fn decode(
    resource: &Resource,
    object: &mut Value,
    origin: ObjectOrigin,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let sent = match origin {
        ObjectOrigin::Body => None,
        ObjectOrigin::Patch { reached_metadata } => Some(order::patched(object, reached_metadata)),
        ObjectOrigin::Apply => Some(order::patched(object, true)),
    };
    let refuse = |status: Status| match &sent {
        Some(sent) => undecodable_patch(&resource.kind, sent, status),
        None => status,
    };
    let mut unknown = Vec::new();
    metadata::decode(resource, object, &mut unknown).map_err(refuse)?;
    if let Some(schema) = resource.structural() {
        if origin != ObjectOrigin::Apply {
            schema.prune(object, "", true, &mut unknown);
            schema.drop_nulls(object);
            let embedded = schema.prune_embedded(object, "", &mut unknown);
            embedded.map_err(|wrong| {
                let why = format!("{}: {}", wrong.field, wrong.message);
                refuse(metadata::undecodable(resource, &why))
            })?;
        }
        schema.apply_defaults(object);
        json::write_whole(object);
    } else {
        let definition = is_definition(resource);
        // Only checks the types of a CRD, in a copy: `crd::decode` below decodes the CRD and finds its unknown fields.
        let mut copy = definition.then(|| object.clone());
        let read = copy.as_mut().unwrap_or(object);
        let read = types::decode(&resource.api_version(), &resource.kind, read)
            .map_err(|why| refuse(metadata::undecodable(resource, &why)))?;
        if definition {
            crd::decode(object, &mut unknown);
        } else {
            unknown.extend(read);
        }
    }
    judge_unknown(&unknown, validation).map_err(|why| refuse(metadata::undecodable(resource, &why)))
}

/// Turns the unknown fields of an object into warnings. With `FieldValidation::Strict`, fails with an error message
/// about them, and with `Ignore` returns nothing.
pub(crate) fn judge_unknown(
    unknown: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    let print = |field: &String| format!("unknown field {}", go::quote(field));
    let messages: Vec<String> = unknown.iter().map(print).collect();
    match validation {
        FieldValidation::Strict if !messages.is_empty() => {
            Err(format!("strict decoding error: {}", messages.join(", ")))
        }
        FieldValidation::Warn => Ok(messages),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// Decodes an object as the body of a POST or PUT, and returns the warnings about its unknown fields.
///
/// # Errors
/// 400 for an object that does not decode.
pub fn unknown_fields(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Status> {
    decode(resource, object, ObjectOrigin::Body, FieldValidation::Warn)
}

/// Turns the decoder's 400 for the result of a patch into a 422 about the patch. Other errors stay as they are.
pub(crate) fn undecodable_patch(kind: &str, sent: &str, status: Status) -> Status {
    match undecodable_reason(kind, &status) {
        Some(why) => invalid_patch(sent, why),
        None => status,
    }
}

/// Extracts from a decoder's refusal the reason why the object does not decode; `None` if the status is another error.
pub(crate) fn undecodable_reason<'a>(kind: &str, status: &'a Status) -> Option<&'a str> {
    let lead = format!("cannot be handled as a {kind}: ");
    status.message.split_once(&lead).map(|(_, why)| why)
}

/// Builds the 422 that refuses a patch because of `why`; `sent` is the text that the error prints as the wrong value.
pub(crate) fn invalid_patch(sent: &str, why: &str) -> Status {
    let error = FieldError::invalid("patch", &go::quote(sent), why);
    Status::invalid(GroupResource::new("", ""), "", &[error])
}

pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.built_in && resource.kind == "CustomResourceDefinition"
}

pub(crate) fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    if let Some(strategy) = steersman_builtins::of(resource) {
        return steersman_builtins::warnings(strategy, object, old);
    }
    if !resource.built_in {
        return custom::warnings(object, old);
    }
    let is_same = old.is_some_and(|old| old["spec"] == object["spec"]);
    if !is_definition(resource) || is_same {
        return Vec::new();
    }
    let formats = |crd: &Value| -> Vec<String> {
        let versions = items(&crd["spec"]["versions"]).iter();
        let unknown = |one: &Value| crd::unknown_formats(&one["schema"]["openAPIV3Schema"]);
        versions.flat_map(unknown).collect()
    };
    let mut known = old.map(formats).unwrap_or_default();
    let mut messages = Vec::new();
    for format in formats(object) {
        if !known.contains(&format) {
            messages.push(format!("unrecognized format \"{format}\""));
            known.push(format);
        }
    }
    messages
}

/// Sets the defaults of a decoded built-in object or CRD. A custom resource got its defaults when it was decoded.
pub(crate) fn complete(resource: &Resource, object: &mut Value) {
    if resource.built_in {
        defaults::apply(resource, object);
    }
    if is_definition(resource) {
        crd::apply_defaults(object);
    }
}

/// Validates a whole object and returns its errors; `old` is the stored object in an update. Warnings are appended to
/// `warnings`.
pub(crate) fn check(
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Vec<FieldError> {
    let mut errors = match old {
        // For an update, `metadata::validate_update` has checked the metadata.
        Some(_) => Vec::new(),
        None => metadata::validate(resource, object, true),
    };
    if !resource.built_in {
        custom::check(resource, object, old, &mut errors, warnings);
    } else if is_definition(resource) {
        errors.extend(crd::validate(object, old));
    } else {
        errors.extend(match steersman_builtins::of(resource) {
            Some(strategy) => steersman_builtins::validate(strategy, object, old),
            None if resource.is("", "Event") || resource.is("events.k8s.io", "Event") => {
                events::check(resource, object, old)
            }
            None => Vec::new(),
        });
    }
    errors
}

pub(crate) fn check_status(
    resource: &Resource,
    object: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Vec<FieldError> {
    if is_definition(resource) {
        return crd::validate_status(object);
    }
    if resource.built_in {
        let validate = |strategy| steersman_builtins::validate_status(strategy, object, old);
        return steersman_builtins::of(resource).map_or_else(Vec::new, validate);
    }
    let mut errors = Vec::new();
    custom::check_status(resource, object, old, &mut errors, warnings);
    errors
}
