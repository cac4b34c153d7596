//! Machine: finds the fields of an object that one manager owns.

use serde_json::{Map, Value};
use steersman_object::{Kind, Object};

use super::change::encode;
use crate::error::Error;

/// Returns the fields of `object` that `manager` owns by apply, as a document that can be changed and applied again.
/// The document also has the type, the name, and the keys of list items with owned fields.
///
/// `subresource` is the subresource through which the fields were applied; `None` stands for the object itself. If the
/// manager owns no field, the document has only the type and the name.
///
/// To apply the document without one of its fields gives that field up: this removes an applied field without naming
/// all others.
///
/// The fields are those of `managedFields` (`FieldsV1`), read as `managedfields.ExtractInto` of apimachinery reads
/// them, with one difference: without the schema, a map that is owned as a whole is taken as a whole, unless a
/// manager owns single members of it.
///
/// # Errors
///
/// [`Error::NoManagedFields`] if the object lacks its managed fields, as in a cache that removes them.
pub fn extract<K: Object>(
    kind: &Kind,
    object: &K,
    manager: &str,
    subresource: Option<&str>,
) -> Result<Value, Error> {
    let body = encode(kind, object)?;
    let entries = body["metadata"]["managedFields"].as_array();
    let entries = entries
        .filter(|entries| !entries.is_empty())
        .ok_or_else(|| Error::NoManagedFields {
            kind: kind.clone(),
            key: object.key(),
        })?;
    let all: Vec<&Value> = entries.iter().map(|entry| &entry["fieldsV1"]).collect();
    let mine = entries.iter().find(|entry| {
        entry["manager"] == manager
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default() == subresource.unwrap_or_default()
    });
    let mine = mine.and_then(|entry| entry["fieldsV1"].as_object());
    let mut document = match mine {
        Some(fields) => members(fields, &body, &all),
        None => Map::new(),
    };
    let gvk = kind.gvk();
    document.insert("apiVersion".to_owned(), gvk.api_version().into());
    document.insert("kind".to_owned(), gvk.kind().into());
    let metadata = document
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    for field in ["name", "namespace"] {
        if let Some(value) = body["metadata"].get(field).filter(|v| !v.is_null()) {
            metadata[field] = value.clone();
        }
    }
    Ok(Value::Object(document))
}

/// Returns the part of `value` that `fields` names; `all` are the sets of all managers at this path.
fn owned(fields: &Value, value: &Value, all: &[&Value]) -> Value {
    let Some(set) = fields.as_object().filter(|set| has_children(set)) else {
        // A leaf is owned as a whole. If other managers own members of it, it was empty when it was applied.
        let apart = all
            .iter()
            .any(|other| other.as_object().is_some_and(has_children));
        return match value {
            Value::Object(_) if apart => Value::Object(Map::new()),
            Value::Array(_) if apart => Value::Array(Vec::new()),
            whole => whole.clone(),
        };
    };
    match value {
        Value::Object(_) => Value::Object(members(set, value, all)),
        Value::Array(list) => Value::Array(items(set, list, all)),
        other => other.clone(),
    }
}

/// Returns the members of an object that `set` names.
fn members(set: &Map<String, Value>, value: &Value, all: &[&Value]) -> Map<String, Value> {
    let mut out = Map::new();
    for (path, fields) in set {
        let Some(name) = path.strip_prefix("f:") else {
            continue;
        };
        if let Some(member) = value.get(name) {
            out.insert(name.to_owned(), owned(fields, member, &below(all, path)));
        }
    }
    out
}

/// Returns the items of a list that `set` names, in the order of the list.
fn items(set: &Map<String, Value>, list: &[Value], all: &[&Value]) -> Vec<Value> {
    let mut out = Vec::new();
    for (at, item) in list.iter().enumerate() {
        for (path, fields) in set {
            let found = match path.split_once(':') {
                Some(("k", key)) => keyed(key, item)
                    .map(|keys| with_keys(owned(fields, item, &below(all, path)), keys)),
                Some(("v", value)) => (parse(value).as_ref() == Some(item)).then(|| item.clone()),
                Some(("i", index)) => (index.parse() == Ok(at)).then(|| item.clone()),
                _ => None,
            };
            out.extend(found);
        }
    }
    out
}

/// Returns the keys of an item, if it has all of them.
fn keyed(key: &str, item: &Value) -> Option<Map<String, Value>> {
    let Some(Value::Object(keys)) = parse(key) else {
        return None;
    };
    let fits = keys
        .iter()
        .all(|(name, value)| item.get(name) == Some(value));
    fits.then_some(keys)
}

/// Adds the keys to an item, because it cannot be found again without them.
fn with_keys(item: Value, keys: Map<String, Value>) -> Value {
    match item {
        Value::Object(mut members) => {
            members.extend(keys);
            Value::Object(members)
        }
        other => other,
    }
}

/// Returns the sets of all managers one level below.
fn below<'a>(all: &[&'a Value], path: &str) -> Vec<&'a Value> {
    all.iter().filter_map(|set| set.get(path)).collect()
}

fn has_children(set: &Map<String, Value>) -> bool {
    set.keys().any(|path| path != ".")
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;

    fn deployment() -> Deployment {
        serde_json::from_value(json!({
            "metadata": {
                "name": "d", "namespace": "a", "labels": {"mine": "1", "theirs": "2"}, "annotations": {"theirs": "3"},
                "finalizers": ["x/mine", "x/theirs"],
                "managedFields": [
                    {"manager": "me", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:metadata": {
                            "f:labels": {"f:mine": {}}, "f:annotations": {}, "f:finalizers": {"v:\"x/mine\"": {}},
                        },
                        "f:spec": {
                            "f:selector": {},
                            "f:template": {"f:spec": {"f:containers": {
                                "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
                                    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
                                }},
                            }}},
                        },
                    }},
                    {"manager": "me", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {"f:replicas": {}}}},
                    {"manager": "me", "operation": "Update", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                    {"manager": "they", "operation": "Update", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:theirs": {}}, "f:annotations": {".": {}, "f:theirs": {}}},
                        "f:spec": {"f:replicas": {}},
                    }},
                ],
            },
            "spec": {
                "replicas": 3, "paused": true, "selector": {"matchLabels": {"app": "d"}},
                "template": {"spec": {"containers": [
                    {"name": "side", "image": "s"},
                    {"name": "web", "image": "w", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                ]}},
            },
            "status": {"replicas": 2, "readyReplicas": 1},
        }))
        .unwrap()
    }

    #[test]
    fn only_the_fields_of_the_manager_are_extracted() {
        let kind = Kind::of::<Deployment>();
        assert_eq!(
            extract(&kind, &deployment(), "me", None).unwrap(),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {
                    "name": "d", "namespace": "a", "labels": {"mine": "1"}, "annotations": {}, "finalizers": ["x/mine"],
                },
                "spec": {
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": {"spec": {"containers": [
                        {"name": "web", "image": "w", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                    ]}},
                },
            })
        );
        assert_eq!(
            extract(&kind, &deployment(), "me", Some("status")).unwrap()["status"],
            json!({"replicas": 2})
        );
    }

    #[test]
    fn a_manager_without_fields_gets_the_name_and_a_cut_object_is_an_error() {
        let kind = Kind::of::<Deployment>();
        assert_eq!(
            extract(&kind, &deployment(), "they", None).unwrap(),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "a"},
            })
        );
        let mut cut = deployment();
        cut.metadata.managed_fields = None;
        let error = extract(&kind, &cut, "me", None).unwrap_err();
        assert!(matches!(error, Error::NoManagedFields { .. }), "{error}");
    }
}
