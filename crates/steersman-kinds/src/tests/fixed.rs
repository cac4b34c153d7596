//! Immutable fields, with the message of each kind.

use serde_json::{Value, json};

use super::{STORAGE, refused};

#[test]
fn changes_of_immutable_fields_are_refused_with_the_message_of_the_kind() {
    let class = |value: &str| json!({"driverName": "x.io/y", "parameters": {"a": value}});
    assert_eq!(
        refused(
            STORAGE,
            "VolumeAttributesClass",
            class("1"),
            Some(class("2"))
        ),
        ["parameters: Forbidden: updates to parameters are forbidden."]
    );
    let class = |mode: &str| json!({"provisioner": "x.io/y", "volumeBindingMode": mode, "reclaimPolicy": if mode == "Immediate" {"Delete"} else {"Retain"}});
    assert_eq!(
        refused(
            STORAGE,
            "StorageClass",
            class("Immediate"),
            Some(class("WaitForFirstConsumer"))
        ),
        [
            "reclaimPolicy: Invalid value: \"Delete\": field is immutable",
            "volumeBindingMode: Invalid value: \"Immediate\": field is immutable",
        ]
    );
    let node = |id: &str, count: u32| json!({"spec": {"drivers": [{"name": "d.io", "nodeID": id, "allocatable": {"count": count}}]}});
    assert_eq!(
        refused(STORAGE, "CSINode", node("a", 1), Some(node("b", 2))),
        [
            "spec.drivers: Invalid value: {\"Name\":\"d.io\",\"NodeID\":\"a\",\"TopologyKeys\":null,\"Allocatable\":null}: field is immutable"
        ]
    );
    assert!(refused(STORAGE, "CSINode", node("a", 1), Some(node("a", 2))).is_empty());
    let revision = |data: Value| json!({"revision": -1, "data": data});
    assert_eq!(
        refused(
            "apps/v1",
            "ControllerRevision",
            revision(Value::Null),
            Some(revision(json!({"a": 1})))
        ),
        [
            "data: Required value: data is mandatory",
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Invalid value: null: field is immutable",
        ]
    );
    let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]});
    let twice = refused(
        "rbac.authorization.k8s.io/v1",
        "Role",
        role.clone(),
        Some(role),
    );
    assert_eq!(
        twice,
        ["rules[0].verbs: Required value: verbs must contain at least one value"; 2]
    );
}
