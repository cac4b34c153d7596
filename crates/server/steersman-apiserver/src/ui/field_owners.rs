//! Machine: reads managedFields as a list of fields with their owners.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::field_changes::{join, short_value};

/// Maximum length of a shown value, in characters.
const LONGEST_VALUE: usize = 80;

/// The field managers of an object, and the fields that they own.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct OwnersView {
    pub(crate) managers: Vec<FieldManager>,
    pub(crate) fields: Vec<OwnedField>,
}

/// An entry of managedFields.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FieldManager {
    pub(crate) manager: String,
    /// `Apply` for server-side apply, `Update` for every other write.
    pub(crate) operation: String,
    /// The subresource that was written, such as `status`; empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) api_version: String,
    /// The time of the last write that changed the entry.
    pub(crate) time: String,
    /// The number of owned fields.
    pub(crate) fields: usize,
}

/// A field with an owner.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OwnedField {
    pub(crate) path: String,
    /// The value in the object, as one line; `None` if the field has fields of its own or is gone.
    pub(crate) value: Option<String>,
    /// The owners, as positions in [`OwnersView::managers`].
    pub(crate) owners: Vec<usize>,
}

/// Reads the managedFields of an object. The values of the fields come from `object`, from which the caller has removed
/// what must not be shown.
pub(crate) fn owners(managed: &Value, object: &Value) -> OwnersView {
    let mut fields: BTreeMap<String, OwnedField> = BTreeMap::new();
    let mut managers = Vec::new();
    for (number, entry) in managed.as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let mut found = Vec::new();
        walk("", &entry["fieldsV1"], Some(object), &mut found);
        managers.push(FieldManager {
            manager: text("manager"),
            operation: text("operation"),
            subresource: text("subresource"),
            api_version: text("apiVersion"),
            time: text("time"),
            fields: found.len(),
        });
        for (path, value) in found {
            let field = fields.entry(path.clone()).or_insert(OwnedField {
                path,
                value,
                owners: Vec::new(),
            });
            field.owners.push(number);
        }
    }
    let fields = fields.into_values().collect();
    OwnersView { managers, fields }
}

/// Returns the managers that wrote a revision: those of entries with a field or a time that the entries of the older
/// revision lack. An entry that only lost fields is of a manager that did not write.
pub(crate) fn writers(old: &Value, new: &Value) -> Vec<String> {
    let paths = |entry: &Value| -> BTreeSet<String> {
        let mut found = Vec::new();
        walk("", &entry["fieldsV1"], None, &mut found);
        found.into_iter().map(|(path, _)| path).collect()
    };
    let is_old = |entry: &Value| {
        let same = |other: &&Value| {
            let members = ["manager", "operation", "subresource", "apiVersion", "time"];
            members.iter().all(|name| other[name] == entry[name])
        };
        let mut olds = old.as_array().into_iter().flatten();
        let before = olds.find(same);
        before.is_some_and(|before| paths(entry).is_subset(&paths(before)))
    };
    let entries = new.as_array().into_iter().flatten();
    let written = entries.filter(|entry| !is_old(entry));
    let managers = written.filter_map(|entry| entry["manager"].as_str());
    let managers: BTreeSet<&str> = managers.collect();
    managers.into_iter().map(str::to_owned).collect()
}

type FoundField = (String, Option<String>);

/// Collects the owned fields below a node of `fieldsV1`. A node without children, and one with the child `.`, is owned
/// itself.
fn walk(path: &str, node: &Value, at: Option<&Value>, found: &mut Vec<FoundField>) {
    let children = node.as_object().into_iter().flatten();
    for (step, child) in children {
        let (path, value) = match step.split_once(':') {
            Some(("f", name)) => (join(path, name), at.and_then(|at| at.get(name))),
            Some(("k", key)) => {
                let key: Value = serde_json::from_str(key).unwrap_or_default();
                (format!("{path}[{}]", print_key(&key)), item_with(at, &key))
            }
            Some(("v", value)) => {
                let value: Value = serde_json::from_str(value).unwrap_or_default();
                let items = at.and_then(Value::as_array);
                let item = items.and_then(|items| items.iter().find(|item| **item == value));
                (format!("{path}[={value}]"), item)
            }
            Some(("i", index)) => {
                let number = index.parse::<usize>().ok();
                let item = number.and_then(|number| at?.get(number));
                (format!("{path}[{index}]"), item)
            }
            // The child `.`: the node above is owned itself, which its own step has added.
            _ => continue,
        };
        let is_leaf = child
            .as_object()
            .is_none_or(|members| members.is_empty() || members.contains_key("."));
        if is_leaf {
            let shown = value.and_then(|value| short_value(value, LONGEST_VALUE));
            found.push((path.clone(), shown));
        }
        walk(&path, child, value, found);
    }
}

fn print_key(key: &Value) -> String {
    let members = key.as_object().into_iter().flatten();
    let parts = members.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// Returns the item of a list that has all members of `key`.
fn item_with<'a>(list: Option<&'a Value>, key: &Value) -> Option<&'a Value> {
    let key = key.as_object()?;
    let mut items = list?.as_array()?.iter();
    items.find(|item| {
        let mut members = key.iter();
        members.all(|(name, value)| item.get(name) == Some(value))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_field_has_its_path_value_and_owners() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}, "finalizers": ["keep"]},
            "spec": {"replicas": 3, "ports": [{"port": 80, "protocol": "TCP", "name": "web"}]},
        });
        let managed = json!([
            {"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a.b/c": {}}, "f:finalizers": {"v:\"keep\"": {}}},
                          "f:spec": {"f:replicas": {}, "f:gone": {}}}},
            {"manager": "operator", "operation": "Update", "subresource": "status",
             "fieldsV1": {"f:spec": {"f:replicas": {},
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}}},
        ]);
        let view = owners(&managed, &object);
        let fields = view.fields.iter().map(|field| {
            let value = field.value.as_deref().unwrap_or("-");
            (field.path.as_str(), value, field.owners.as_slice())
        });
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                ("metadata.finalizers[=\"keep\"]", "keep", &[0][..]),
                ("metadata.labels", "-", &[0]),
                ("metadata.labels[\"a.b/c\"]", "x", &[0]),
                ("spec.gone", "-", &[0]),
                ("spec.ports[port=80,protocol=TCP]", "-", &[1]),
                ("spec.ports[port=80,protocol=TCP].name", "web", &[1]),
                ("spec.replicas", "3", &[0, 1]),
            ]
        );
        let counts: Vec<usize> = view.managers.iter().map(|one| one.fields).collect();
        assert_eq!(counts, [5, 3]);
        assert_eq!(view.managers[1].subresource, "status");
    }

    #[test]
    fn a_writer_has_a_new_field_or_a_new_time() {
        let entry = |manager: &str, time: &str, fields: Value| json!({"manager": manager, "time": time, "fieldsV1": fields});
        let old = json!([
            entry("loses", "1", json!({"f:a": {}, "f:b": {}})),
            entry("stays", "1", json!({"f:c": {}})),
            entry("repeats", "1", json!({"f:d": {}})),
            entry("grows", "1", json!({"f:e": {}})),
        ]);
        let new = json!([
            entry("loses", "1", json!({"f:b": {}})),
            entry("stays", "1", json!({"f:c": {}})),
            entry("repeats", "2", json!({"f:d": {}})),
            entry("grows", "1", json!({"f:e": {}, "f:a": {}})),
            entry("appears", "1", json!({"f:f": {}})),
        ]);
        assert_eq!(writers(&old, &new), ["appears", "grows", "repeats"]);
        assert_eq!(writers(&Value::Null, &old).len(), 4);
        assert!(writers(&old, &Value::Null).is_empty());
    }

    #[test]
    fn fields_in_another_form_are_left_out() {
        for managed in [
            json!(null),
            json!({}),
            json!([{"fieldsV1": {"x": {}, "q:a": {}, "k:no": 3}}]),
        ] {
            let view = owners(&managed, &json!({}));
            assert!(view.fields.len() <= 1, "{view:?}");
        }
    }
}
