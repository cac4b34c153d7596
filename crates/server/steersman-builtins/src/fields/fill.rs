//! Machine: sets absent members of objects, for the defaults of many kinds.

use serde_json::{Value, json};

/// Sets a member that is absent or null.
pub(crate) fn set(object: &mut Value, name: &str, default: Value) {
    if let Some(members) = object.as_object_mut()
        && members.get(name).is_none_or(Value::is_null)
    {
        members.insert(name.to_owned(), default);
    }
}

/// Sets a text that is absent or empty.
pub(crate) fn set_text(object: &mut Value, name: &str, default: &str) {
    if object[name].as_str().is_none_or(str::is_empty)
        && let Some(members) = object.as_object_mut()
    {
        members.insert(name.to_owned(), json!(default));
    }
}

/// Sets a member to a value, whether or not the object has the member.
pub(crate) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// Sets a member to that of another object, or removes the member if the other object lacks it.
pub(crate) fn copy(object: &mut Value, from: &Value, name: &str) {
    match from.get(name) {
        Some(value) => put(object, name, value.clone()),
        None => drop(object, name),
    }
}

pub(crate) fn drop(object: &mut Value, name: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(name);
    }
}

/// Returns a member, created if absent; `None` if the member is no object.
pub(crate) fn part<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    set(object, name, json!({}));
    object.get_mut(name).filter(|part| part.is_object())
}

pub(crate) fn with_spec(object: &mut Value) {
    part(object, "spec");
}

/// Sets the members that are absent or null to these defaults, also in the members that are objects.
pub(crate) fn complete(object: &mut Value, defaults: Value) {
    let Value::Object(defaults) = defaults else {
        return;
    };
    for (name, default) in defaults {
        if default.is_object() {
            if let Some(member) = part(object, &name) {
                complete(member, default);
            }
        } else {
            set(object, &name, default);
        }
    }
}

/// Completes a member, if it is an object.
pub(crate) fn complete_given(object: &mut Value, name: &str, defaults: Value) {
    if let Some(member) = given(object, name) {
        complete(member, defaults);
    }
}

/// Returns a member, if it is an object.
pub(crate) fn given<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    object.get_mut(name).filter(|part| part.is_object())
}

/// Iterates over the elements of a member. A member that is absent or no list has no elements.
pub(crate) fn list<'a>(
    object: &'a mut Value,
    name: &str,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Returns the elements of a list. A value of another type has no elements.
pub(crate) fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether a member is absent, null, or an empty list, map or text.
pub(crate) fn lacks(object: &Value, name: &str) -> bool {
    let member = &object[name];
    is_nothing(member) || member == ""
}

/// Returns whether a value is null or an empty list or map, which Go treats as absent.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
