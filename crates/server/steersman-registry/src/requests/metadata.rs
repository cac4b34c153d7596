//! Machine: decodes and checks the metadata of objects, and keeps fields that only the server may set or change.

use serde_json::{Map, Value, json};
pub use steersman_apimachinery::json::members;
use steersman_apimachinery::status::{FieldError, Status};
use steersman_apimachinery::{go, names};
use steersman_schema::resource::{Generation, MetadataCheck, Resource};
use steersman_schema::types;

use crate::values::items;

/// Returns a string field of an object's metadata; empty if it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns the metadata of an object. If it is absent or no JSON object, sets it to an empty JSON object first.
pub fn of(object: &mut Value) -> &mut Map<String, Value> {
    map_in(members(object), "metadata")
}

/// Returns the JSON object in a field. If the field is absent or no JSON object, sets it to an empty one first.
pub(crate) fn map_in<'a>(
    members: &'a mut Map<String, Value>,
    field: &str,
) -> &'a mut Map<String, Value> {
    self::members(members.entry(field).or_insert(Value::Null))
}

/// Returns the list in a field; an absent field becomes an empty list. `None` if the field has another value.
pub(crate) fn list_in<'a>(
    members: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Vec<Value>> {
    let list = members.entry(field).or_insert_with(|| json!([]));
    list.as_array_mut()
}

/// Decodes `metadata`: drops unknown fields (their names go to `unknown`) and empty values, refuses wrong types.
pub(crate) fn decode(
    resource: &Resource,
    object: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), Status> {
    let refuse = |why: String| undecodable(resource, &why);
    let sent = &object["metadata"];
    if !sent.is_null() && !sent.is_object() {
        let (kind, found) = (&resource.kind, types::type_word(sent));
        return Err(refuse(format!(
            "json: cannot unmarshal {found} into Go struct field {kind}.metadata of type v1.ObjectMeta"
        )));
    }
    let metadata = of(object);
    metadata.retain(|name, _| name != "selfLink" && name != "managedFields");
    // Upstream decodes the metadata of a custom resource apart from its other fields, so the field paths in error
    // messages start in the metadata and not at the object.
    unknown.extend(types::decode_metadata(metadata, resource.built_in).map_err(refuse)?);
    metadata.retain(|name, value| match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty() || name == "name",
        _ => true,
    });
    Ok(())
}

pub(crate) fn undecodable(resource: &Resource, why: &str) -> Status {
    unhandled((&resource.version, &resource.kind), &resource.kind, why)
}

/// Builds the 400 for an object with this `apiVersion` and kind that does not decode as the kind `wanted`.
pub(crate) fn unhandled((version, kind): (&str, &str), wanted: &str, why: &str) -> Status {
    let short = go::quote(version.rsplit('/').next().unwrap_or_default());
    Status::bad_request(format!(
        "{kind} in version {short} cannot be handled as a {wanted}: {why}"
    ))
}

pub(crate) fn validate(resource: &Resource, object: &Value, new: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let invalid = |field: &'static str, value: &str, wrong: Vec<String>| {
        let value = go::quote(value);
        let error = |why: &String| FieldError::invalid(field, &value, why);
        wrong.iter().map(error).collect::<Vec<_>>()
    };
    let prefix = text(object, "generateName");
    if new && !prefix.is_empty() {
        let wrong = names::check_prefix(resource.names, prefix);
        errors.extend(invalid("metadata.generateName", prefix, wrong));
    }
    let name = text(object, "name");
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required("metadata.name", detail));
    } else if new {
        // An update does not check the name again: the object may have been created in another version or group of its
        // kind, with other rules for names.
        let wrong = names::check_name(resource.names, name);
        errors.extend(invalid("metadata.name", name, wrong));
    }
    names::check_attached(&object["metadata"], &mut errors);
    check_finalizers(resource, object, &mut errors);
    errors
}

/// Copies the metadata that only the server sets, such as `creationTimestamp`, from the stored object to the new one.
pub(crate) fn keep(new: &mut Value, old: &Value) {
    let metadata = of(new);
    for field in ["creationTimestamp", "generation", "namespace"] {
        assign(metadata, field, old["metadata"].get(field).cloned());
    }
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let (None, Some(value)) = (metadata.get(field), old["metadata"].get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
}

/// Validates the metadata of an update: first on its own, then against the old metadata, and then by the `checks` of
/// the kind. As upstream, each step reports its own errors, so an error can occur twice.
pub(crate) fn validate_update(
    resource: &Resource,
    checks: &[MetadataCheck],
    (new, old): (&Value, &Value),
) -> Vec<FieldError> {
    let mut attached = Vec::new();
    names::check_attached(&new["metadata"], &mut attached);
    let mut errors = attached.clone();
    check_finalizers(resource, new, &mut errors);
    let change = check_change(new, old, attached);
    errors.extend_from_slice(&change);
    for check in checks {
        match check {
            MetadataCheck::New => errors.extend(validate(resource, new, false)),
            MetadataCheck::Update => errors.extend_from_slice(&change),
        }
    }
    errors
}

fn check_finalizers(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array() {
        names::check_finalizers(finalizers, resource.built_in, errors);
    }
}

/// Returns an error for each immutable metadata field that an update changes, and then `attached`, the errors of
/// labels, annotations and owner references (upstream: `ValidateObjectMetaAccessorUpdate`).
fn check_change(new: &Value, old: &Value, attached: Vec<FieldError>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (new, old) = (&new["metadata"], &old["metadata"]);
    if !old["deletionTimestamp"].is_null() {
        let had = items(&old["finalizers"]);
        let added: Vec<String> = items(&new["finalizers"])
            .iter()
            .filter(|one| !had.contains(one))
            .map(Value::to_string)
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new[field] != old[field] {
            let (path, value) = (format!("metadata.{field}"), new[field].to_string());
            errors.push(FieldError::invalid(path, &value, "field is immutable"));
        }
    }
    errors.extend(attached);
    errors
}

/// Kinds for which an update that sends an empty list or map raises the generation: upstream compares them with
/// `reflect.DeepEqual`, where the sent empty list differs from the stored object, which omits it. All other kinds are
/// compared with `Semantic.DeepEqual`.
const COUNTING_EMPTY: [(&str, &str); 3] = [
    ("networking.k8s.io", "NetworkPolicy"),
    (
        "admissionregistration.k8s.io", "MutatingWebhookConfiguration",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ),
];

/// Returns whether an update with the object `sent` raises the generation just because it has an empty list or map (see
/// `COUNTING_EMPTY`).
pub(crate) fn counts_empty(resource: &Resource, sent: &Value) -> bool {
    let is_counting = |(group, kind): &(&str, &str)| resource.built_in && resource.is(group, kind);
    COUNTING_EMPTY.iter().any(is_counting)
        && types::has_empty(&resource.api_version(), &resource.kind, sent)
}

/// Raises `metadata.generation` by 1 if the update changes the desired state, and not otherwise (SRV-REG-3).
pub(crate) fn raise_generation(
    resource: &Resource,
    new: &mut Value,
    old: &Value,
    sends_empty: bool,
) {
    let changed = sends_empty
        || match resource.generation {
            Generation::Unmanaged => false,
            Generation::Spec => new["spec"] != old["spec"],
            Generation::OutsideMetadata | Generation::OutsideMetadataOrLabels => {
                let empty = Map::new();
                let ignored = |name: &str| {
                    matches!(name, "metadata" | "apiVersion" | "kind")
                        || (name == "status" && resource.status)
                };
                let outside = |object: &Value| {
                    let members = object.as_object().unwrap_or(&empty).clone();
                    let kept = members.into_iter().filter(|(name, _)| !ignored(name));
                    kept.collect::<Map<String, Value>>()
                };
                let labels = |object: &Value| object["metadata"]["labels"].clone();
                outside(new) != outside(old)
                    || (resource.generation == Generation::OutsideMetadataOrLabels
                        && labels(new) != labels(old))
            }
        };
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        let generation = json!(generation.saturating_add(1));
        of(new).insert("generation".to_owned(), generation);
    }
}

/// Sets a field, or removes it if `value` is `None`.
pub(crate) fn assign(members: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => members.insert(field.to_owned(), value),
        None => members.remove(field),
    };
}

/// Keeps those items of a list in the metadata for which `keep` is true. Removes the list if no item is left.
pub(crate) fn retain_items(object: &mut Value, field: &str, keep: impl FnMut(&Value) -> bool) {
    let fields = of(object);
    if let Some(list) = fields.get_mut(field).and_then(Value::as_array_mut) {
        list.retain(keep);
        if list.is_empty() {
            fields.remove(field);
        }
    }
}

/// Appends an item to the list in a field, unless the list has an equal item. Creates an absent list.
pub(crate) fn add_item(fields: &mut Map<String, Value>, field: &str, item: Value) {
    if let Some(list) = list_in(fields, field)
        && !list.contains(&item)
    {
        list.push(item);
    }
}

/// Formats a time as in metadata: UTC without fractions of a second, such as `2024-03-10T23:30:15Z`.
pub fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
