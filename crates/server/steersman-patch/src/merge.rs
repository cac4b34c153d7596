//! Machine: JSON merge patch (RFC 7386).

use serde_json::Value;
use steersman_apimachinery::status::Status;

use crate::json_patch::not_of_type;

/// Applies a JSON merge patch document to `object`.
///
/// # Errors
/// 400 for a document that is no JSON object.
pub fn apply(object: &Value, document: Result<Value, String>) -> Result<Value, Status> {
    let undecodable =
        |message: String| Status::bad_request(format!("error decoding patch: {message}"));
    let document = document.map_err(undecodable)?;
    match &document {
        Value::Object(_) => {}
        Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
        other => return Err(undecodable(not_of_type(other, "map[string]interface {}"))),
    }
    let mut patched = object.clone();
    merge(&mut patched, document);
    Ok(patched)
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        drop_nulls(target);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(members) = target.as_object_mut() else {
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            members.remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// Removes the null members of a new object at every depth, because they have nothing to delete. Null elements of lists
/// stay.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_removes_objects_merge_and_lists_replace() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "t"});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [null, {"p": null, "q": 1}], "s": {"x": 1}});
        assert_eq!(
            apply(&object, Ok(patch)),
            Ok(json!({"a": {"c": 2, "d": {"f": 1}}, "l": [null, {"q": 1}], "s": {"x": 1}}))
        );
    }

    #[test]
    fn only_an_object_is_a_merge_patch() {
        let message = |document| apply(&json!({}), Ok(document)).unwrap_err().message;
        assert_eq!(message(Value::Null), "Invalid JSON Patch");
        assert_eq!(
            message(json!([1])),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }
}
