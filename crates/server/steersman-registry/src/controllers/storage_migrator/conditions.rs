//! Machine: reads and writes the conditions of a StorageVersionMigration.

use serde_json::{Value, json};

use crate::objects::conditions;

pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
/// The condition of a migration that has failed: it could not write an object, or its resource is not served.
pub(super) const FAILED: &str = "Failed";

pub(super) fn holds(migration: &Value, kind: &str) -> bool {
    conditions::find_true(migration, kind).is_some()
}

pub(super) fn is_ended(migration: &Value) -> bool {
    holds(migration, SUCCEEDED) || holds(migration, FAILED)
}

pub(super) fn is_active(migration: &Value) -> bool {
    holds(migration, RUNNING) && !is_ended(migration)
}

/// Sets a condition of a migration. Its `lastTransitionTime` changes only if its status changes.
pub(super) fn set(
    migration: &mut Value,
    (kind, status): (&str, &str),
    (reason, message): (&str, &str),
    now: &str,
) {
    let before = conditions::find(migration, kind).filter(|one| one["status"] == status);
    let since = before.and_then(|one| one["lastTransitionTime"].as_str());
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or(now)});
    conditions::set(migration, condition);
}
