//! Machine: finds the fields in which two revisions of an object differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};
use steersman_apimachinery::yaml;

/// Members of the metadata that are left out: the revision has its own number, and managedFields a page of their own.
const LEFT_OUT: [&str; 2] = ["resourceVersion", "managedFields"];

/// The members by which the items of a list are told apart, the first that all items have.
const ITEM_KEYS: [&str; 5] = ["type", "name", "key", "uid", "port"];

/// The number of unchanged lines around a changed line of a long text.
const CONTEXT: usize = 2;

/// Maximum number of lines of one field.
const MOST_LINES: usize = 200;

/// Maximum number of lines of a long text that are compared, because the time grows with the square of the lines.
const MOST_COMPARED: usize = 2_000;

/// Maximum number of fields of one revision.
const MOST_FIELDS: usize = 100;

/// A field that a revision changed, with its lines of YAML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FieldChange {
    /// The path of the field, such as `status.conditions[type=Ready].status`; empty for the whole object.
    pub(crate) path: String,
    pub(crate) lines: Vec<ChangedLine>,
}

/// A line of a changed field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangedLine {
    pub(crate) sign: LineSign,
    pub(crate) text: String,
}

/// What a revision did to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LineSign {
    Same,
    Removed,
    Added,
    /// The line is a remark about lines that are left out.
    Note,
}

/// Returns the fields in which two revisions differ, without the fields that the server changes with each write. A new
/// object is one change of the whole object.
pub(crate) fn field_changes(before: Option<&Value>, after: Option<&Value>) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let before = before.map(without_server_fields);
    let after = after.map(without_server_fields);
    compare("", before.as_ref(), after.as_ref(), &mut changes);
    if changes.len() > MOST_FIELDS {
        let more = changes.len() - MOST_FIELDS;
        changes.truncate(MOST_FIELDS);
        changes.push(FieldChange {
            path: String::new(),
            lines: vec![line(LineSign::Note, format!("{more} more fields"))],
        });
    }
    changes
}

/// Returns the path of a member, which is quoted if its name has characters other than letters, digits, `-` and `_`.
pub(crate) fn join(path: &str, name: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_');
    match (path, name.chars().all(is_plain)) {
        ("", true) => name.to_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[\"{name}\"]"),
    }
}

fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    }
    object
}

fn compare(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<FieldChange>,
) {
    if before == after {
        return;
    }
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                compare(&join(path, name), old.get(name), new.get(name), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            match item_key(old, new) {
                Some(key) => compare_items(path, key, (old, new), changes),
                None => changes.push(changed(path, before, after)),
            };
        }
        _ => changes.push(changed(path, before, after)),
    }
}

fn compare_items(
    path: &str,
    key: &str,
    (old, new): (&[Value], &[Value]),
    changes: &mut Vec<FieldChange>,
) {
    let index = |items: &'_ [Value]| -> BTreeMap<String, Value> {
        let named = items.iter().map(|item| (name_of(item, key), item.clone()));
        named.collect()
    };
    let (befores, afters) = (index(old), index(new));
    let added = new.iter().map(|item| name_of(item, key));
    let added = added.filter(|name| !befores.contains_key(name));
    let names = old.iter().map(|item| name_of(item, key)).chain(added);
    let length = changes.len();
    for name in names {
        let path = format!("{path}[{key}={name}]");
        compare(&path, befores.get(&name), afters.get(&name), changes);
    }
    if changes.len() == length {
        let lines = vec![line(LineSign::Note, "the order of the items".to_owned())];
        let path = path.to_owned();
        changes.push(FieldChange { path, lines });
    }
}

/// Returns the member that names the items of both lists; `None` if no member names each item once.
fn item_key(old: &[Value], new: &[Value]) -> Option<&'static str> {
    let names = |items: &[Value], key: &str| {
        let named = items.iter().filter(|item| {
            item.get(key)
                .is_some_and(|one| one.is_string() || one.is_number())
        });
        let names: BTreeSet<String> = named.map(|item| name_of(item, key)).collect();
        names.len() == items.len()
    };
    let mut keys = ITEM_KEYS.into_iter();
    let is_empty = old.is_empty() && new.is_empty();
    keys.find(|key| !is_empty && names(old, key) && names(new, key))
}

fn name_of(item: &Value, key: &str) -> String {
    match item.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn changed(path: &str, before: Option<&Value>, after: Option<&Value>) -> FieldChange {
    let mut lines = match (before, after) {
        (Some(Value::String(old)), Some(Value::String(new)))
            if old.contains('\n') || new.contains('\n') =>
        {
            changed_text(old, new)
        }
        _ => {
            let whole = |sign, value: Option<&Value>| {
                let text = value.map(yaml::write).unwrap_or_default();
                let lines = text.lines().map(|text| line(sign, text.to_owned()));
                lines.collect::<Vec<_>>()
            };
            [
                whole(LineSign::Removed, before),
                whole(LineSign::Added, after),
            ]
            .concat()
        }
    };
    if lines.len() > MOST_LINES {
        let more = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(line(LineSign::Note, format!("{more} more lines")));
    }
    let path = path.to_owned();
    FieldChange { path, lines }
}

fn changed_text(old: &str, new: &str) -> Vec<ChangedLine> {
    let first = |text: &str| -> String { text.split_inclusive('\n').take(MOST_COMPARED).collect() };
    let (old, new) = (first(old), first(new));
    let diff = TextDiff::from_lines(&old, &new);
    let mut lines = Vec::new();
    for hunk in diff.grouped_ops(CONTEXT) {
        if !lines.is_empty() {
            lines.push(line(LineSign::Note, String::new()));
        }
        for op in hunk {
            lines.extend(diff.iter_changes(&op).map(|change| {
                let sign = match change.tag() {
                    ChangeTag::Equal => LineSign::Same,
                    ChangeTag::Delete => LineSign::Removed,
                    ChangeTag::Insert => LineSign::Added,
                };
                line(sign, change.value().trim_end_matches('\n').to_owned())
            }));
        }
    }
    lines
}

fn line(sign: LineSign, text: String) -> ChangedLine {
    ChangedLine { sign, text }
}

/// Returns the value of a field, as one line of at most `most` characters; `None` if the object lacks the field, or if
/// the field has fields of its own.
pub(crate) fn short_value(value: &Value, most: usize) -> Option<String> {
    let text = match value {
        Value::Object(members) if !Map::is_empty(members) => return None,
        Value::Array(items) if !items.iter().all(|item| !item.is_object()) => return None,
        Value::String(text) => text.replace('\n', "⏎"),
        other => other.to_string(),
    };
    Some(match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn print(before: &Value, after: &Value) -> Vec<String> {
        let changes = field_changes(Some(before), Some(after));
        let print = |change: &FieldChange| {
            let lines = change.lines.iter().map(|line| match line.sign {
                LineSign::Same => format!("  {}", line.text),
                LineSign::Removed => format!("- {}", line.text),
                LineSign::Added => format!("+ {}", line.text),
                LineSign::Note => format!("… {}", line.text),
            });
            format!("{}: {}", change.path, lines.collect::<Vec<_>>().join(" | "))
        };
        changes.iter().map(print).collect()
    }

    #[test]
    fn a_change_has_the_path_of_its_field_and_both_values() {
        let before = json!({"metadata": {"resourceVersion": "1", "labels": {"a.b/c": "1"}}, "spec": {"replicas": 1},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Old", "status": "True"}]}});
        let after = json!({"metadata": {"resourceVersion": "2", "labels": {"a.b/c": "2"}}, "spec": {"replicas": 3},
            "status": {"conditions": [{"type": "New", "status": "True"}, {"type": "Ready", "status": "True"}]}});
        assert_eq!(
            print(&before, &after),
            [
                "metadata.labels[\"a.b/c\"]: - \"1\" | + \"2\"",
                "spec.replicas: - 1 | + 3",
                "status.conditions[type=Ready].status: - \"False\" | + \"True\"",
                "status.conditions[type=Old]: - status: \"True\" | - type: Old",
                "status.conditions[type=New]: + status: \"True\" | + type: New",
            ]
        );
    }

    #[test]
    fn a_long_text_shows_its_changed_lines() {
        let text =
            |changed: &str| json!({"data": {"a": format!("1\n2\n3\n4\n{changed}\n6\n7\n8\n")}});
        assert_eq!(
            print(&text("five"), &text("5")),
            ["data.a:   3 |   4 | - five | + 5 |   6 |   7"]
        );
    }

    #[test]
    fn lists_without_names_and_lists_in_another_order_are_shown() {
        let list = |items: Value| json!({"a": items});
        assert_eq!(
            print(&list(json!([1])), &list(json!([2]))),
            ["a: - - 1 | + - 2"]
        );
        let (x, y) = (json!({"name": "x"}), json!({"name": "y"}));
        assert_eq!(
            print(&list(json!([x, y])), &list(json!([y, x]))),
            ["a: … the order of the items"]
        );
    }

    #[test]
    fn a_new_object_is_one_change_and_a_large_one_is_cut() {
        let object = json!({"data": (0..300).map(|n| (format!("k{n:03}"), json!("v"))).collect::<Map<_, _>>()});
        let created = field_changes(None, Some(&object));
        assert_eq!(created.len(), 1);
        assert_eq!(created[0].lines.len(), MOST_LINES + 1);
        assert_eq!(created[0].lines[MOST_LINES].text, "101 more lines");
        let changed = field_changes(Some(&json!({"data": {}})), Some(&object));
        assert_eq!(changed.len(), MOST_FIELDS + 1);
        assert!(field_changes(Some(&object), Some(&object)).is_empty());
    }
}
