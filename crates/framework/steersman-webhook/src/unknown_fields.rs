//! Machine: applies the changes of a typed object to the original JSON, to keep fields that the Rust type lacks
//! (ADMIT-2).

use serde_json::{Map, Value};

/// Returns `original` with the changes from `before` to `after`, which are the object as its Rust type encodes it.
///
/// A field that the type does not change stays as it arrived: unknown, in another notation, or absent although the type
/// writes a default. List elements are matched by position if the length stays, otherwise by their content and then by
/// their `name` or `key`.
pub(crate) fn with_changes(original: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return original.clone();
    }
    match (original, before, after) {
        (Value::Object(original), Value::Object(before), Value::Object(after)) => {
            Value::Object(changed_members(original, before, after))
        }
        (Value::Array(original), Value::Array(before), Value::Array(after))
            if original.len() == before.len() =>
        {
            Value::Array(changed_elements(original, before, after))
        }
        _ => after.clone(),
    }
}

fn changed_members(
    original: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut changed = original.clone();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changed.remove(name);
    }
    for (name, value) in after {
        let value = match (original.get(name), before.get(name)) {
            // An unchanged field stays as it arrived, even if it was absent and the type writes it.
            (_, Some(before)) if before == value => continue,
            (Some(original), Some(before)) => with_changes(original, before, value),
            _ => value.clone(),
        };
        changed.insert(name.clone(), value);
    }
    changed
}

fn changed_elements(original: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    if before.len() == after.len() && !is_reordered(before, after) {
        let elements = original.iter().zip(before).zip(after);
        let changed =
            elements.map(|((original, before), after)| with_changes(original, before, after));
        return changed.collect();
    }
    let mut taken = vec![false; before.len()];
    // Unchanged elements are matched first, so that a changed element with the same name cannot take their place.
    let same: Vec<Option<usize>> = after
        .iter()
        .map(|element| take(&mut taken, |at| before[at] == *element))
        .collect();
    let mut changed = Vec::with_capacity(after.len());
    for (element, same) in after.iter().zip(same) {
        let at = same.or_else(|| {
            let name = name_of(element)?;
            take(&mut taken, |at| name_of(&before[at]) == Some(name))
        });
        changed.push(match at {
            Some(at) => with_changes(&original[at], &before[at], element),
            None => element.clone(),
        });
    }
    changed
}

/// Returns the first free index that matches, and marks it as taken.
fn take(taken: &mut [bool], matches: impl Fn(usize) -> bool) -> Option<usize> {
    let at = (0..taken.len()).find(|at| !taken[*at] && matches(*at))?;
    taken[at] = true;
    Some(at)
}

/// Returns whether named elements have changed their positions.
fn is_reordered(before: &[Value], after: &[Value]) -> bool {
    let names = |list: &[Value]| -> Option<Vec<String>> {
        let names = list
            .iter()
            .map(|element| Some(name_of(element)?.to_owned()));
        names.collect()
    };
    match (names(before), names(after)) {
        (Some(before), Some(after)) => before != after,
        _ => false,
    }
}

/// Returns the `name` or `key` of a list element.
fn name_of(element: &Value) -> Option<&str> {
    let named = element.get("name").or_else(|| element.get("key"));
    named.and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// ADMIT-2: a defaulter keeps the fields that its Rust type does not have.
    #[test]
    fn a_change_keeps_every_member_that_the_type_does_not_know() {
        for (original, before, after, expected) in [
            // The type adds a default beside an unknown field.
            (
                json!({"spec": {"new": 1}}),
                json!({"spec": {}}),
                json!({"spec": {"replicas": 1}}),
                json!({"spec": {"new": 1, "replicas": 1}}),
            ),
            // The type writes fields that the client left out, which is no change.
            (
                json!({"spec": {}}),
                json!({"spec": {"paused": false, "list": []}, "status": null}),
                json!({"spec": {"paused": false, "list": [], "a": 1}, "status": null}),
                json!({"spec": {"a": 1}}),
            ),
            // The type removes a field; an unknown field beside it stays.
            (
                json!({"a": 1, "unknown": 2}),
                json!({"a": 1}),
                json!({}),
                json!({"unknown": 2}),
            ),
            // List elements keep their unknown fields.
            (
                json!([{"image": "a", "new": 1}, {"image": "b", "new": 2}]),
                json!([{"image": "a"}, {"image": "b"}]),
                json!([{"image": "c"}, {"image": "b"}]),
                json!([{"image": "c", "new": 1}, {"image": "b", "new": 2}]),
            ),
            // An element is inserted at the front, and another element changes.
            (
                json!([{"name": "a", "new": 1}, {"name": "b", "v": 1, "new": 2}]),
                json!([{"name": "a"}, {"name": "b", "v": 1}]),
                json!([{"name": "x"}, {"name": "b", "v": 2}, {"name": "a"}]),
                json!([{"name": "x"}, {"name": "b", "v": 2, "new": 2}, {"name": "a", "new": 1}]),
            ),
            // Two elements change places.
            (
                json!([{"name": "a", "new": 1}, {"name": "b", "new": 2}]),
                json!([{"name": "a"}, {"name": "b"}]),
                json!([{"name": "b"}, {"name": "a"}]),
                json!([{"name": "b", "new": 2}, {"name": "a", "new": 1}]),
            ),
            // An equal value in another notation stays.
            (
                json!({"cpu": 1, "a": 1}),
                json!({"cpu": "1", "a": 1}),
                json!({"cpu": "1", "a": 2}),
                json!({"cpu": 1, "a": 2}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
                json!({"a": 7}),
                json!({"a": 7}),
            ),
        ] {
            let changed = with_changes(&original, &before, &after);
            assert_eq!(changed, expected, "{original} {before} {after}");
        }
    }
}
