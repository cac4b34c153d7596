//! Compares an answer with the recorded one.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Map, Value};

/// The descriptions of a Table's columns are documentation, and the server has its own.
const PROSE: &str = "/description";

/// The members of `/version` that are compared; the others depend on the build.
const OF_VERSION: &[&str] = &["major", "minor"];

/// The start of a difference of two Go values in a message. Its text differs from build to build.
const GO_DIFF: &str = "\n@@ -";

/// Values that were saved under a name.
pub(super) type Saved = BTreeMap<String, Value>;

/// Returns the first difference between two bodies, if any.
pub(super) fn body(want: &Value, got: &Value, saved: &Saved) -> Result<(), String> {
    at("", want, got, saved)
}

/// Removes the value at a JSON pointer; a star stands for every member or item.
pub(super) fn remove(body: &mut Value, pointer: &str) {
    let Some((first, rest)) = pointer.strip_prefix('/').map(|path| {
        path.split_once('/')
            .map_or((path, ""), |(first, _)| (first, &path[first.len()..]))
    }) else {
        return;
    };
    let name = first.replace("~1", "/").replace("~0", "~");
    match body {
        Value::Object(members) if rest.is_empty() => {
            members.retain(|member, _| first != "*" && *member != name);
        }
        Value::Object(members) => {
            let inside = members
                .iter_mut()
                .filter(|(key, _)| first == "*" || **key == name);
            inside.for_each(|(_, value)| remove(value, rest));
        }
        Value::Array(items) => {
            let inside = items.iter_mut().enumerate();
            let inside = inside.filter(|(at, _)| first == "*" || at.to_string() == name);
            inside.for_each(|(_, value)| {
                if rest.is_empty() {
                    *value = Value::Null;
                } else {
                    remove(value, rest);
                }
            });
        }
        _ => {}
    }
}

/// Sorts the entries of all managedFields by everything but their times. Servers sort entries of
/// one operation by their time in seconds, and which writes share a second is chance.
pub(super) fn sort_managers(body: &mut Value) {
    match body {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::Array(entries) if name == "managedFields" => {
                        entries.sort_by_key(|entry| {
                            ["operation", "manager", "apiVersion", "subresource"]
                                .map(|field| entry[field].as_str().unwrap_or_default().to_owned())
                        });
                    }
                    other => sort_managers(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sort_managers),
        _ => {}
    }
}

/// Compares `/version`: all members exist, and the version numbers are equal.
pub(super) fn version(want: &Value, got: &Value) -> Result<(), String> {
    let keys = |value: &Value| -> BTreeSet<String> {
        value
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .cloned()
            .collect()
    };
    if keys(want) != keys(got) {
        return Err(format!(
            "members: want {:?}, got {:?}",
            keys(want),
            keys(got)
        ));
    }
    for name in OF_VERSION {
        at(&format!("/{name}"), &want[name], &got[name], &Saved::new())?;
    }
    Ok(())
}

fn at(pointer: &str, want: &Value, got: &Value, saved: &Saved) -> Result<(), String> {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => members(pointer, want, got, saved),
        (Value::Array(want), Value::Array(got)) => {
            for (index, (want, got)) in want.iter().zip(got).enumerate() {
                at(&format!("{pointer}/{index}"), want, got, saved)?;
            }
            if want.len() == got.len() {
                return Ok(());
            }
            let more = if want.len() > got.len() {
                &want[got.len()]
            } else {
                &got[want.len()]
            };
            Err(format!(
                "{pointer}: want {} items, got {}: the next is {more}",
                want.len(),
                got.len()
            ))
        }
        (Value::String(want), Value::String(got)) => {
            let documentation = pointer.contains("/columnDefinitions/") && pointer.ends_with(PROSE);
            if documentation || text(want, got, saved) {
                return Ok(());
            }
            Err(format!("{pointer}:\n    want {want:?}\n    got  {got:?}"))
        }
        (Value::Number(left), Value::Number(right)) if left.as_f64() == right.as_f64() => Ok(()),
        (want, got) if want == got => Ok(()),
        (want, got) => Err(format!("{pointer}:\n    want {want}\n    got  {got}")),
    }
}

fn members(
    pointer: &str,
    want: &Map<String, Value>,
    got: &Map<String, Value>,
    saved: &Saved,
) -> Result<(), String> {
    // One recorded key stands for every key that matches its mask, because the recording kept only
    // one.
    let mut known: BTreeMap<String, &Value> = BTreeMap::new();
    for (key, value) in want {
        let key = fill(key, saved);
        let own = got.keys().filter(|own| text(&key, own, saved));
        let before = known.len();
        known.extend(own.map(|own| (own.clone(), value)));
        if known.len() == before {
            known.insert(key, value);
        }
    }
    let want = known;
    let keys: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
    for key in keys {
        let below = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        match (want.get(key), got.get(key)) {
            (Some(want), Some(got)) => at(&below, want, got, saved)?,
            (Some(want), None) => return Err(format!("{below}: missing, want {want}")),
            (_, got) => {
                let got = got.cloned().unwrap_or_default();
                return Err(format!("{below}: not expected, got {got}"));
            }
        }
    }
    Ok(())
}

/// Replaces each `{{name}}` by its saved value; unknown names stay.
pub(super) fn fill(template: &str, saved: &Saved) -> String {
    let mut text = template.to_owned();
    for (name, value) in saved {
        let mark = format!("{{{{{name}}}}}");
        if text.contains(&mark) {
            let plain = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text = text.replace(&mark, &plain);
        }
    }
    text
}

/// Returns whether a text equals the recorded one, in which a mask stands for any value of its
/// shape.
pub(super) fn text(want: &str, got: &str, saved: &Saved) -> bool {
    let mut want = fill(want, saved);
    let mut got = got;
    if want.contains(GO_DIFF) {
        want.truncate(want.find('\n').unwrap_or(want.len()));
        got = got.lines().next().unwrap_or_default();
    }
    if want == got {
        return true;
    }
    if !want.contains('<') {
        return false;
    }
    let mut pattern = regex::escape(&want);
    for (mask, shape) in [
        ("<uid>", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("<time>", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
        ("<rv>", r"\d+"),
        ("<token>", r"\S+"),
        ("<age>", r"(\d+[smhdy])+"),
    ] {
        pattern = pattern.replace(&regex::escape(mask), shape);
    }
    let pattern = Regex::new(&format!("^(?s:{pattern})$")).unwrap();
    pattern.is_match(got)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_match_their_shape_alone() {
        let saved = Saved::from([("rv".to_owned(), json!("17"))]);
        assert!(text("at <rv> of {{rv}}", "at 3 of 17", &saved));
        assert!(!text("at <rv> of {{rv}}", "at 3 of 18", &saved));
        assert!(!text("<uid>", "17", &saved));
        assert!(!text("<rv>", "", &saved));
        assert!(text("want <nil> (a.b)", "want <nil> (a.b)", &saved));
        assert!(text("<time>", "2026-01-01T00:00:00Z", &saved));
        assert!(!text("a.b", "axb", &saved));
    }

    #[test]
    fn the_value_at_a_pointer_is_removed() {
        let mut body = json!({"a": [{"b": 1, "c/d": 2}, {"b": 3}], "e": 4});
        for pointer in ["/a/*/b", "/a/0/c~1d", "/none/at/all", "/e", ""] {
            remove(&mut body, pointer);
        }
        assert_eq!(body, json!({"a": [{}, {}]}));
    }

    #[test]
    fn the_order_of_managers_ignores_seconds() {
        let entry = |manager: &str, operation: &str, time: &str| json!({"manager": manager, "operation": operation, "time": time});
        let body = |entries: Vec<Value>| json!([{"metadata": {"managedFields": entries}}]);
        let [a, b] = ["b", "a"].map(|name| entry(name, "Update", "<time>"));
        let applied = entry("c", "Apply", "<time>");
        let mut same_second = body(vec![applied.clone(), b.clone(), a.clone()]);
        let mut two_seconds = body(vec![applied, a, b]);
        assert_ne!(same_second, two_seconds);
        sort_managers(&mut same_second);
        sort_managers(&mut two_seconds);
        assert_eq!(same_second, two_seconds);
    }

    #[test]
    fn missing_and_additional_members_are_differences() {
        let differs = |want: Value, got: Value| body(&want, &got, &Saved::new()).is_err();
        assert!(!differs(json!({"a": [1, 2.0]}), json!({"a": [1.0, 2]})));
        assert!(differs(json!({"a": 1}), json!({"a": 1, "b": null})));
        assert!(differs(json!({"a": null}), json!({})));
        assert!(differs(json!([1]), json!([1, 2])));
        assert!(differs(json!([1, 2]), json!([1])));
        assert!(differs(json!("1"), json!(1)));
    }
}
