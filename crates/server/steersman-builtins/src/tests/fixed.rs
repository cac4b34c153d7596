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

#[test]
fn immutable_structs_are_printed_as_go_prints_its_internal_types() {
    let attachment = |node: &str, source: Value| json!({"spec": {"attacher": "a.io", "nodeName": node, "source": source}});
    let named = json!({"persistentVolumeName": "pv"});
    assert_eq!(
        refused(
            STORAGE,
            "VolumeAttachment",
            attachment("n", named.clone()),
            Some(attachment("o", named))
        ),
        [
            r#"spec: Invalid value: {"Attacher":"a.io","Source":{"PersistentVolumeName":"pv","InlineVolumeSpec":null},"NodeName":"n"}: field is immutable"#
        ]
    );
    let address = |name: &str| {
        json!({"metadata": {"name": "10.0.0.1"},
            "spec": {"parentRef": {"resource": "services", "name": name}}})
    };
    assert_eq!(
        refused(
            "networking.k8s.io/v1",
            "IPAddress",
            address("a"),
            Some(address("b"))
        ),
        [
            r#"spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"","Name":"a"}: field is immutable"#
        ]
    );
}

#[test]
fn the_spec_of_a_resource_claim_is_immutable() {
    let claim = |class: &str| {
        json!({"spec": {"devices": {"requests": [{"name": "r",
            "exactly": {"deviceClassName": class, "count": -1}}]}}})
    };
    assert_eq!(
        refused("resource.k8s.io/v1", "ResourceClaim", claim(""), None),
        [
            "spec.devices.requests[0].exactly.deviceClassName: Required value",
            "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
        ]
    );
    let errors = refused(
        "resource.k8s.io/v1",
        "ResourceClaim",
        claim("a"),
        Some(claim("b")),
    );
    let printed = concat!(
        r#"{"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"a","Selectors":null,"#,
        r#""AllocationMode":"ExactCount","Count":-1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"#,
        r#""FirstAvailable":null}],"Constraints":null,"Config":null}}"#
    );
    let claim_error = format!("spec: Invalid value: {printed}: field is immutable");
    assert_eq!(errors, [claim_error]);
    let template = |class: &str| {
        let metadata = json!({"labels": {"b": "<", "a": "1"}, "annotations": {}});
        json!({"spec": {"metadata": metadata, "spec": claim(class)["spec"]}})
    };
    let kind = "ResourceClaimTemplate";
    let errors = refused(
        "resource.k8s.io/v1",
        kind,
        template("a"),
        Some(template("b")),
    );
    let printed = format!(r#"{{"labels":{{"a":"1","b":"\u003c"}},"Spec":{printed}}}"#);
    let template_error = format!("spec: Invalid value: {printed}: field is immutable");
    assert_eq!(errors, [template_error]);
}
