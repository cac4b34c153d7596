//! Machine: finds the fields of an object that one manager owns.

use serde_json::{Value, json};
use steersman_api::{ItemKeys, OwnedFields};
use steersman_object::{Kind, Object};

use super::change::encode;
use crate::error::Error;

/// Returns the fields of `object` that `manager` owns by apply, as a document that can be changed and applied again.
/// The document also has the type, the name, and the keys of list items with owned fields.
///
/// `subresource` is the subresource through which the fields were applied; `None` stands for the object itself. If the
/// manager owns no field, the document has only the type and the name.
///
/// Applying the document without one of its fields gives up that field, so a caller can remove one field without
/// listing the other fields again.
///
/// The fields are those in `managedFields` (`FieldsV1`), read as `managedfields.ExtractInto` of apimachinery reads
/// them. Because this function does not know the schema of the kind, there is one difference: a map that is owned as a
/// whole is extracted as a whole, unless a manager owns single members of the map.
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
    let body = encode(kind, || object.key(), object)?;
    let owned = OwnedFields::of(&body, ItemKeys::Added).ok_or_else(|| Error::NoManagedFields {
        kind: kind.clone(),
        key: object.key(),
    })?;
    let mut applies = owned.applies(subresource.unwrap_or_default());
    let mine = applies.find(|entry| entry["manager"] == manager);
    let mut document = mine.map(|entry| owned.part_of(entry)).unwrap_or_default();
    let gvk = kind.gvk();
    document.insert("apiVersion".to_owned(), gvk.api_version().into());
    document.insert("kind".to_owned(), gvk.kind().into());
    let metadata = document.entry("metadata").or_insert_with(|| json!({}));
    for field in ["name", "namespace"] {
        if let Some(value) = body["metadata"].get(field).filter(|v| !v.is_null()) {
            metadata[field] = value.clone();
        }
    }
    Ok(Value::Object(document))
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
