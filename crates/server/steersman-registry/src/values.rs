//! Machine: reads JSON values as texts and lists; a value of another type counts as an empty one.

use serde_json::Value;

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the items of the list in a field of a JSON object; no items if the field has no list.
pub(crate) fn items_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut [Value] {
    let list = object.get_mut(field).and_then(Value::as_array_mut);
    list.map(Vec::as_mut_slice).unwrap_or_default()
}

/// Returns the items of a JSON list that are texts, and skips numbers and other types.
pub(crate) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    items(list).iter().filter_map(Value::as_str)
}

/// Reads a field that may hold one text or a list of texts: returns the text, or the texts in the list.
pub(crate) fn one_or_many(value: &Value) -> impl Iterator<Item = &str> {
    value.as_str().into_iter().chain(texts(value))
}

pub(crate) fn has_text(list: &Value, wanted: &str) -> bool {
    items(list).iter().any(|item| item == wanted)
}
