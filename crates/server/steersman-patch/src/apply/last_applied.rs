//! Machine: takes over the fields of client-side apply, and updates the annotation of client-side apply (upstream:
//! `lastAppliedManager` and `lastAppliedUpdater` of apimachinery's `managedfields`).
//!
//! Only the manager `kubectl` takes over fields, because it applied on the client before.

use serde_json::{Map, Value};
use steersman_apimachinery::go;
use steersman_apimachinery::names::are_annotations_too_large;

use super::changed_fields::compare;
use super::conflict::Conflict;
use super::field_set::FieldSet;
use super::managed_fields::{Manager, ManagerEntries};
use super::owners::{OwnershipContext, apply};
use super::typed_value::{fields_of, validate};

/// The annotation with the configuration that client-side apply applied last.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager that takes over from client-side apply.
const KUBECTL: &str = "kubectl";

/// Applies a configuration like `apply`. In addition, the manager `kubectl` takes over a field in conflict if the field
/// has the value in the annotation, because client-side apply wrote that value.
///
/// # Errors
/// Returns the remaining conflicts.
pub fn apply_over_client_side(
    reach: &OwnershipContext<'_>,
    entries: &mut ManagerEntries,
    manager: &Manager,
    states: (&Value, &Value),
    force: bool,
    time: &str,
) -> Result<Option<Value>, Vec<Conflict>> {
    let live = Some(states.0).filter(|_| manager.name == KUBECTL && !force);
    let Some(allowed) = live.and_then(|live| fields_of_client_side(reach, live)) else {
        return apply(reach, entries, manager, states, force, time);
    };
    let before = entries.clone();
    let conflicts = match apply(reach, entries, manager, states, false, time) {
        Ok(applied) => return Ok(applied),
        Err(conflicts) => conflicts,
    };
    let others = conflicts.into_iter().map(|conflict| Conflict {
        fields: conflict.fields.difference(&allowed),
        ..conflict
    });
    let others: Vec<_> = others.filter(|one| !one.fields.is_empty()).collect();
    if !others.is_empty() {
        return Err(others);
    }
    *entries = before;
    apply(reach, entries, manager, states, true, time)
}

/// Returns the fields that have the value in the annotation; `None` if the object has no annotation, or if the
/// annotation is no configuration of this version.
fn fields_of_client_side(reach: &OwnershipContext<'_>, live: &Value) -> Option<FieldSet> {
    let configuration: Value = serde_json::from_str(annotation(live)?).ok()?;
    let is_fitting = configuration["apiVersion"] == reach.version
        && validate(reach.ty, &configuration).is_empty();
    let mut fields = is_fitting.then(|| fields_of(reach.ty, &configuration))?;
    let changes = compare(reach.ty, &configuration, live, &[]);
    for changed in [&changes.modified, &changes.added, &changes.removed] {
        fields = fields.difference(changed);
    }
    Some(fields)
}

/// Writes a configuration that `kubectl` applied into the annotation of an object that has it. `applied` is the result
/// of the apply, or `None` if it left `live` unchanged. Returns the object to store, or `None` if nothing changes.
pub fn follow(
    manager: &Manager,
    live: &Value,
    applied: Option<Value>,
    configuration: &Value,
) -> Option<Value> {
    let noted = annotation(applied.as_ref().unwrap_or(live));
    if manager.name != KUBECTL || noted.is_none() {
        return applied;
    }
    let mut bare = configuration.clone();
    if let Some(annotations) = annotations(&mut bare) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{}\n", go::escape_html(&bare.to_string()));
    if noted == Some(text.as_str()) {
        return applied;
    }
    let mut object = applied.unwrap_or_else(|| live.clone());
    if let Some(annotations) = annotations(&mut object) {
        annotations.insert(ANNOTATION.to_owned(), Value::from(text));
        if are_annotations_too_large(annotations) {
            annotations.remove(ANNOTATION);
        }
    }
    Some(object)
}

/// Returns the value of the annotation of client-side apply, unless it is empty.
fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    let found = annotations.get(ANNOTATION)?.as_str()?;
    (!found.is_empty()).then_some(found)
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.get_mut("metadata")?;
    metadata.get_mut("annotations")?.as_object_mut()
}
