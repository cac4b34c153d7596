//! Machine: functions to read cells from objects, which the columns of several kinds share.

use serde_json::Value;
pub(super) use steersman_apimachinery::conditions::{find as condition, holds};
use steersman_apimachinery::selector::selector_text;

pub(super) const NONE: &str = "<none>";

/// Returns the value at a path of keys, for instance `spec.nodeName`.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(object, |value, key| value.get(key))
}

/// Returns the text at a path of keys; empty if absent.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn text_or_none<'a>(object: &'a Value, path: &str) -> &'a str {
    match text(object, path) {
        "" => NONE,
        found => found,
    }
}

/// Returns the number at a path of keys; zero if absent.
pub(super) fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the list at a path of keys; empty if absent.
pub(super) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Returns the number of entries of the map at a path of keys.
pub(super) fn entries(object: &Value, path: &str) -> usize {
    at(object, path)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

/// Returns one field of each container of a pod template, joined by commas.
pub(super) fn containers(template: &Value, field: &str) -> String {
    let containers = list(template, "spec.containers").iter();
    let values: Vec<&str> = containers.map(|container| text(container, field)).collect();
    values.join(",")
}

/// Joins texts by commas; `none` if there are none.
pub(super) fn joined<T: AsRef<str>>(texts: &[T], none: &str) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    if texts.is_empty() {
        none.to_owned()
    } else {
        texts.join(",")
    }
}

/// Formats labels as `a=b,c=d`, or `<none>`.
pub(super) fn labels(value: Option<&Value>) -> String {
    let Some(Value::Object(map)) = value else {
        return NONE.to_owned();
    };
    let pair = |(key, value): (&String, &Value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{key}={value}")
    };
    let pairs: Vec<String> = map.iter().map(pair).collect();
    joined(&pairs, NONE)
}

/// Formats a label selector, with sorted keys and values, or `<none>`.
pub(super) fn selector(value: Option<&Value>) -> String {
    let text = value.map(selector_text);
    text.filter(|text| !text.is_empty())
        .unwrap_or_else(|| NONE.to_owned())
}

pub(super) const UNSET: &str = "<unset>";

pub(super) fn text_or<'a>(object: &'a Value, path: &str, other: &'a str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or(other)
}

pub(super) fn texts<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    list(object, path)
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns whether the value at a path of keys exists and is not null.
pub(super) fn is_set(object: &Value, path: &str) -> bool {
    at(object, path).is_some_and(|value| !value.is_null())
}

pub(super) fn boolean(object: &Value, path: &str, other: bool) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(other)
}

/// Formats a number or a text as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Joins at most three entries by commas, and adds the number of further ones.
pub(super) fn first_three(entries: &[String], none: &str) -> String {
    const SHOWN: usize = 3;
    if entries.len() <= SHOWN {
        return joined(entries, none);
    }
    let (shown, more) = entries.split_at(SHOWN);
    format!("{} + {} more...", shown.join(","), more.len())
}
