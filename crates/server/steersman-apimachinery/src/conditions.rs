//! Machine: reads and writes the conditions in the status of an object.

use serde_json::{Value, json};

use crate::json::members;

/// Returns the condition of a type; `None` if the object has none.
pub fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind)
}

/// Returns whether the condition of a type is true.
pub fn holds(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|one| one["status"] == "True")
}

/// Replaces the condition of the same type, or appends the condition.
pub fn put(object: &mut Value, condition: Value) {
    let status = members(object).entry("status").or_insert(Value::Null);
    let list = members(status).entry("conditions").or_insert(Value::Null);
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(one) => *one = condition,
        None => list.push(condition),
    }
}

/// Sets a condition to true or false, with a reason and a message. Its transition time stays if its status stays.
pub fn set(
    object: &mut Value,
    kind: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: &str,
) {
    let status = if holds { "True" } else { "False" };
    let same = find(object, kind).filter(|one| one["status"] == status);
    let since = same.and_then(|one| one["lastTransitionTime"].as_str());
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or(now)});
    put(object, condition);
}
