//! Words: JSON as Go writes typed values, whose fields come in the order of their declaration.

use serde_json::{Map, Value};

/// The fields of `metadata`.
const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// The fields of an owner reference.
const OWNER: &[&str] = &[
    "apiVersion",
    "kind",
    "name",
    "uid",
    "controller",
    "blockOwnerDeletion",
];

/// The fields of an entry of managedFields.
const MANAGED: &[&str] = &[
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
];

/// Metadata as messages quote them.
pub fn metadata(metadata: &Value) -> String {
    typed(metadata, METADATA)
}

/// Owner references as messages quote them.
pub fn owners(owners: &[Value]) -> String {
    let printed: Vec<String> = owners.iter().map(owner).collect();
    format!("[{}]", printed.join(","))
}

/// One owner reference as messages quote it.
pub fn owner(owner: &Value) -> String {
    typed(owner, OWNER)
}

/// A patched object: what the patch reached into is in alphabetical order, the rest as it was
/// written from its type.
pub fn patched(object: &Value, reached_metadata: bool) -> String {
    let Some(members) = object.as_object() else {
        return object.to_string();
    };
    write(members, |name, value| match (name, value.as_object()) {
        ("metadata", Some(inner)) if reached_metadata => write(inner, within_metadata),
        ("metadata", _) => typed(value, METADATA),
        _ => value.to_string(),
    })
}

/// A member of metadata, its entries as they are written from their types.
fn within_metadata(name: &str, value: &Value) -> String {
    match (name, value.as_array()) {
        ("ownerReferences", Some(list)) => owners(list),
        ("managedFields", Some(list)) => {
            let printed: Vec<String> = list.iter().map(|one| typed(one, MANAGED)).collect();
            format!("[{}]", printed.join(","))
        }
        _ => value.to_string(),
    }
}

/// A value with its known fields first, in their order.
fn typed(value: &Value, order: &[&str]) -> String {
    let Some(members) = value.as_object() else {
        return value.to_string();
    };
    let rank = |name: &str| order.iter().position(|known| *known == name);
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_by_key(|(name, _)| rank(name).unwrap_or(order.len()));
    let print = |(name, value): &(&String, &Value)| {
        let value = within_metadata(name, value);
        format!("{}:{value}", Value::String((*name).clone()))
    };
    let printed: Vec<String> = sorted.iter().map(print).collect();
    format!("{{{}}}", printed.join(","))
}

fn write(members: &Map<String, Value>, print: impl Fn(&str, &Value) -> String) -> String {
    let printed: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{}", Value::String(name.clone()), print(name, value)))
        .collect();
    format!("{{{}}}", printed.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_comes_as_it_is_declared() {
        let object = json!({"kind": "K", "data": {"a": 1}, "metadata": {"uid": "u", "name": "n",
            "labels": {"x": "y"}, "creationTimestamp": "t", "odd": 1}});
        assert_eq!(
            patched(&object, false),
            r#"{"data":{"a":1},"kind":"K","metadata":{"name":"n","uid":"u","creationTimestamp":"t","labels":{"x":"y"},"odd":1}}"#
        );
        assert_eq!(patched(&object, true), object.to_string());
        // What was reached into is sorted, and what is in it and was not is as declared.
        let entry = json!({"metadata": {"uid": "u", "name": "n",
            "managedFields": [{"apiVersion": "v1", "manager": "m"}]}});
        assert_eq!(
            patched(&entry, true),
            r#"{"metadata":{"managedFields":[{"manager":"m","apiVersion":"v1"}],"name":"n","uid":"u"}}"#
        );
    }

    #[test]
    fn owners_come_as_they_are_declared() {
        let owner = json!({"apiVersion": "v1", "controller": true, "kind": "K", "name": "n"});
        assert_eq!(
            owners(&[owner]),
            r#"[{"apiVersion":"v1","kind":"K","name":"n","controller":true}]"#
        );
    }
}
