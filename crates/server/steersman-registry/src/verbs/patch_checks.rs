//! Machine: checks a patch for duplicate and unknown fields, and its result for a changed kind.

use serde_json::Value;
use steersman_apimachinery::json::{duplicates, unreadable_kind};
use steersman_apimachinery::status::Status;
use steersman_apimachinery::{go, order};
use steersman_patch::unknown_members;
use steersman_schema::resource::Resource;
use steersman_schema::types;

use crate::requests::catalogue::Catalogue;
use crate::requests::intake::{self, FieldValidation};
use crate::requests::metadata;
use crate::requests::options::PatchKind;
use crate::values::{items, text};

/// Returns a message for each duplicate key in a patch, and for each unknown field of a JSON patch operation; no
/// message if `fieldValidation` is `Ignore`.
pub(crate) fn oddities(
    kind: PatchKind,
    body: &[u8],
    document: &Value,
    validation: FieldValidation,
) -> Vec<String> {
    if validation == FieldValidation::Ignore {
        return Vec::new();
    }
    let (lead, unknown) = match kind {
        PatchKind::Json => ("json patch ", unknown_members(document)),
        _ => ("", Vec::new()),
    };
    let unknown = unknown.iter();
    let unknown = unknown.map(|field| format!("{lead}unknown field {}", go::quote(field)));
    let twice = duplicates::find(body).into_iter();
    let twice = twice.map(|field| format!("{lead}duplicate field {}", go::quote(&field)));
    unknown.chain(twice).collect()
}

/// Refuses a patch for which [`oddities`] returned messages, if `fieldValidation` is `Strict`; `sent` returns the text
/// of the patch for the error message.
pub(crate) fn refuse_oddities(
    oddities: &[String],
    validation: FieldValidation,
    sent: impl FnOnce() -> String,
) -> Result<(), Status> {
    if validation != FieldValidation::Strict || oddities.is_empty() {
        return Ok(());
    }
    let why = format!("strict decoding error: {}", oddities.join(", "));
    Err(intake::invalid_patch(&sent(), &why))
}

pub(crate) fn reaches_metadata(document: &Value) -> bool {
    let mut operations = items(document).iter();
    let below = |path: &Value| text(path).starts_with("/metadata/");
    document.get("metadata").is_some()
        || operations.any(|one| below(&one["path"]) || below(&one["from"]))
}

/// Refuses with 422 a patch that has changed `kind` or `apiVersion` of the object. Values of another type than text get
/// another message, and are refused first.
pub(crate) fn check_kind(
    catalogue: &Catalogue,
    resource: &Resource,
    patched: &mut Value,
    reached_metadata: bool,
) -> Result<(), Status> {
    let expected = resource.api_version();
    let named = |field: &str, default: &str| {
        let found = patched.get(field).and_then(Value::as_str);
        let found = found.filter(|found| !found.is_empty());
        found.unwrap_or(default).to_owned()
    };
    let kind = named("kind", &resource.kind);
    let version = named("apiVersion", &expected);
    let unreadable = unreadable_kind(patched).filter(|_| resource.built_in);
    if unreadable.is_some() || kind != resource.kind || version != expected {
        let why = if let Some(why) = unreadable {
            why
        } else if resource.built_in {
            types::decode(&version, &kind, &mut patched.clone())
                .err()
                .unwrap_or_else(|| {
                    intake::unconvertible(catalogue, intake::go_type_of(resource), &version, &kind)
                })
        } else if kind == resource.kind {
            format!("apiVersion {version} is not {expected}")
        } else {
            format!("kind {kind} is not {}", resource.kind)
        };
        let sent = order::patched(patched, reached_metadata);
        return Err(intake::invalid_patch(&sent, &why));
    }
    for (field, value) in [("kind", kind), ("apiVersion", version)] {
        metadata::members(patched).insert(field.to_owned(), Value::String(value));
    }
    Ok(())
}
