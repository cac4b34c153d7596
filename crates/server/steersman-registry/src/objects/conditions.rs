//! Machine: reads and writes `status.conditions` of objects.

use serde_json::Value;

use crate::requests::metadata;
use crate::values::items;

pub(crate) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = items(&object["status"]["conditions"]);
    all.iter().find(|one| one["type"] == kind)
}

pub(crate) fn find_true<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = items(&object["status"]["conditions"]);
    all.iter()
        .find(|one| one["type"] == kind && one["status"] == "True")
}

/// Sets a condition in `status.conditions`: replaces the condition of the same type, or appends the new one.
pub(crate) fn set(object: &mut Value, condition: Value) {
    let status = metadata::map_in(metadata::members(object), "status");
    let Some(list) = metadata::list_in(status, "conditions") else {
        return;
    };
    let mut known = list.iter_mut();
    match known.find(|known| known["type"] == condition["type"]) {
        Some(known) => *known = condition,
        None => list.push(condition),
    }
}
