//! Machine: the conditions of a StorageVersionMigration.

use serde_json::{Value, json};

use crate::requests::metadata;

/// The objects are being stored anew.
pub(super) const RUNNING: &str = "Running";
/// Every object was stored anew.
pub(super) const SUCCEEDED: &str = "Succeeded";
/// An object could not be stored anew, or the resource is not served.
pub(super) const FAILED: &str = "Failed";

/// Returns whether an object has a condition with the status `True`.
pub(super) fn holds(object: &Value, kind: &str) -> bool {
    let found = find(object, kind);
    found.is_some_and(|one| one["status"] == "True")
}

/// Returns whether a migration has succeeded or failed.
pub(super) fn is_ended(migration: &Value) -> bool {
    holds(migration, SUCCEEDED) || holds(migration, FAILED)
}

/// Returns whether a migration runs and has not ended.
pub(super) fn is_active(migration: &Value) -> bool {
    holds(migration, RUNNING) && !is_ended(migration)
}

/// Returns the condition of this type.
pub(super) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array();
    all.into_iter().flatten().find(|one| one["type"] == kind)
}

/// Sets a condition. Its transition time stays if its status stays.
pub(super) fn set(
    migration: &mut Value,
    (kind, status): (&str, &str),
    (reason, message): (&str, &str),
    now: &str,
) {
    let before = find(migration, kind).filter(|one| one["status"] == status);
    let since = before.and_then(|one| one["lastTransitionTime"].as_str());
    let since = since.unwrap_or(now).to_owned();
    let condition = json!({"type": kind, "status": status, "lastTransitionTime": since,
        "reason": reason, "message": message});
    let part = metadata::members(migration)
        .entry("status")
        .or_insert(Value::Null);
    let list = metadata::members(part)
        .entry("conditions")
        .or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|one| one["type"] == kind) {
        Some(one) => *one = condition,
        None => list.push(condition),
    }
}
