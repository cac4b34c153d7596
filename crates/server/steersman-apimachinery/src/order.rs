//! Words: the order in which Go writes the fields of metadata, which is the order of their declaration in the Go type.

use serde_json::Value;

/// The fields of `metadata`, in the order of their declaration in Go.
pub const METADATA: &[&str] = &[
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
    "annotations", "ownerReferences", "finalizers", "managedFields",
];

/// The fields of an owner reference, in the order of their declaration in Go.
const OWNER: &[&str] = &[
    "apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion",
];

/// The fields of an entry of managedFields, in the order of their declaration in Go.
const MANAGED: &[&str] = &[
    "manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource",
];

/// Prints metadata for messages: as JSON, with the fields in the order of their declaration in Go.
pub fn metadata(metadata: &Value) -> String {
    typed(metadata, METADATA)
}

/// Prints owner references for messages, as Go does.
pub fn owners(owners: &[Value]) -> String {
    let printed: Vec<String> = owners.iter().map(owner).collect();
    format!("[{}]", printed.join(","))
}

/// Prints one owner reference for messages, as Go does.
pub fn owner(owner: &Value) -> String {
    typed(owner, OWNER)
}

/// Prints a patched object for messages. In objects that the patch reached, the members are sorted by name; in all
/// other objects, they have the order of their declaration in Go.
pub fn patched(object: &Value, reached_metadata: bool) -> String {
    let Some(members) = object.as_object() else {
        return object.to_string();
    };
    write(members, |name, value| match (name, value.as_object()) {
        ("metadata", Some(inner)) if reached_metadata => write(inner, within_metadata),
        ("metadata", _) => typed(value, METADATA),
        // For objects of megabytes, this is faster than `Display`.
        _ => serde_json::to_string(value).unwrap_or_default(),
    })
}

/// Prints a member of metadata, with the fields of the objects in it in the order of their declaration in Go.
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

/// Prints an object with the fields in `order` first, in this order.
fn typed(value: &Value, order: &[&str]) -> String {
    let Some(members) = value.as_object() else {
        return value.to_string();
    };
    let rank = |name: &str| order.iter().position(|known| *known == name);
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_by_key(|(name, _)| rank(name).unwrap_or(order.len()));
    write(sorted, within_metadata)
}

fn write<'a>(
    members: impl IntoIterator<Item = (&'a String, &'a Value)>,
    print: impl Fn(&str, &Value) -> String,
) -> String {
    let member = |(name, value): (&String, &Value)| {
        format!("{}:{}", Value::String(name.clone()), print(name, value))
    };
    let printed: Vec<String> = members.into_iter().map(member).collect();
    format!("{{{}}}", printed.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_fields_keep_the_order_of_their_declaration() {
        let object = json!({"kind": "K", "data": {"a": 1}, "metadata": {"uid": "u", "name": "n",
            "labels": {"x": "y"}, "creationTimestamp": "t", "odd": 1}});
        assert_eq!(
            patched(&object, false),
            r#"{"data":{"a":1},"kind":"K","metadata":{"name":"n","uid":"u","creationTimestamp":"t","labels":{"x":"y"},"odd":1}}"#
        );
        assert_eq!(patched(&object, true), object.to_string());
        // Objects that the patch reached are sorted; objects in them that the patch did not reach have the order of
        // their declaration.
        let entry = json!({"metadata": {"uid": "u", "name": "n",
            "managedFields": [{"apiVersion": "v1", "manager": "m"}]}});
        assert_eq!(
            patched(&entry, true),
            r#"{"metadata":{"managedFields":[{"manager":"m","apiVersion":"v1"}],"name":"n","uid":"u"}}"#
        );
    }

    #[test]
    fn owner_fields_keep_the_order_of_their_declaration() {
        let owner = json!({"apiVersion": "v1", "controller": true, "kind": "K", "name": "n"});
        assert_eq!(
            owners(&[owner]),
            r#"[{"apiVersion":"v1","kind":"K","name":"n","controller":true}]"#
        );
    }
}
