//! Tests of the admission plugin for pod security standards.

use serde_json::{Value, json};

use super::{Server, refused};
use crate::Subresource;

fn label(server: &mut Server, labels: Value) -> Value {
    let mut patch = json!({"metadata": {}});
    patch["metadata"]["labels"] = labels;
    server.merge("namespaces", "default", patch).unwrap()
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}});
    pod["spec"] = spec;
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    pod
}

fn messages(server: &Server) -> Vec<String> {
    server.registry.take_warnings().1
}

const FORBIDDEN: &str = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

#[test]
fn a_namespace_enforces_a_standard() {
    let mut server = Server::new();
    label(
        &mut server,
        json!({"pod-security.kubernetes.io/enforce": "restricted"}),
    );
    assert_eq!(
        refused(server.create("pods", pod("a", json!({})))),
        (
            403,
            format!(
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": {FORBIDDEN}"
            )
        )
    );
    let mut fine = pod(
        "a",
        json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}),
    );
    fine["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let mut made = server.create("pods", fine).unwrap();
    // After the namespace has a standard, an update of a Pod's labels is accepted, because no checked field changes.
    label(
        &mut server,
        json!({"pod-security.kubernetes.io/enforce": "baseline"}),
    );
    made["metadata"]["labels"] = json!({"a": "b"});
    server.put("pods", Subresource::Main, made).unwrap();
    let host = pod(
        "b",
        json!({"hostNetwork": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    );
    assert_eq!(
        refused(server.create("pods", host)).1,
        "pods \"b\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true), hostPath volumes (volume \"v\")"
    );
}

#[test]
fn a_workload_gets_a_warning_and_a_generated_name_is_named() {
    let mut server = Server::new();
    label(
        &mut server,
        json!({"pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted",
            "pod-security.kubernetes.io/warn-version": "v1.30"}),
    );
    server
        .create("deployments", super::deployment("web"))
        .unwrap();
    let warnings = messages(&server);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("would violate PodSecurity \"restricted:v1.30\": allowPrivilege")
    );
    let mut unnamed = pod("", json!({}));
    unnamed["metadata"] = json!({"generateName": "web-"});
    let (_, message) = refused(server.create("pods", unnamed));
    let name = message.split('"').nth(1).unwrap();
    assert_eq!(name.len(), "web-".len() + 5, "{message}");
    // The write was refused, so it has no warning about the same violation.
    assert!(messages(&server).is_empty());
}

#[test]
fn labels_are_validated_and_existing_pods_reported() {
    let mut server = Server::new();
    for name in ["a", "b"] {
        server.create("pods", pod(name, json!({}))).unwrap();
    }
    server
        .create("pods", pod("c", json!({"hostPID": true})))
        .unwrap();
    label(
        &mut server,
        json!({"pod-security.kubernetes.io/enforce": "restricted"}),
    );
    let others = "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
    assert_eq!(
        messages(&server),
        [
            "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"restricted:latest\"".to_owned(),
            format!("a (and 1 other pod): {others}"),
            format!("c: host namespaces, {others}"),
        ]
    );
    label(
        &mut server,
        json!({"pod-security.kubernetes.io/enforce": "baseline"}),
    );
    assert!(messages(&server).is_empty());
    let bad = json!({"metadata": {"name": "n",
        "labels": {"pod-security.kubernetes.io/enforce": "strict"}}});
    assert_eq!(
        refused(server.create("namespaces", bad)),
        (
            422,
            "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted".to_owned()
        )
    );
}

/// A Pod may violate a standard that its namespace got later. An update of the Pod is refused only if it changes a
/// field that the standard checks.
#[test]
fn an_older_pod_is_checked_only_if_a_checked_field_changes() {
    let mut server = Server::new();
    server.create("pods", pod("a", json!({}))).unwrap();
    let workload = super::deployment("d");
    let mut workload = server.create("deployments", workload).unwrap();
    label(
        &mut server,
        json!({"pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted"}),
    );
    messages(&server);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    server.merge("pods", "a", labels).unwrap();
    let mut running = server.get("pods", "a").unwrap();
    running["status"]["phase"] = json!("Running");
    server.put("pods", Subresource::Status, running).unwrap();
    workload["status"]["replicas"] = json!(0);
    server
        .put("deployments", Subresource::Status, workload)
        .unwrap();
    assert!(messages(&server).is_empty());
    let mut image = server.get("pods", "a").unwrap();
    image["spec"]["containers"][0]["image"] = json!("other");
    let (code, message) = refused(server.put("pods", Subresource::Main, image));
    assert_eq!(
        (code, message.contains("violates PodSecurity")),
        (403, true)
    );
}

/// Invalid labels of a namespace are refused when they are written. A namespace that has them already can be updated.
#[test]
fn older_invalid_labels_do_not_block_updates() {
    let mut server = Server::new();
    let mut namespace = server.get("namespaces", "default").unwrap();
    namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("none");
    let storage = steersman_schema::resource::StorageKey::new("", "namespaces");
    server.registry.put(&storage, "", "default", namespace);
    label(&mut server, json!({"team": "a"}));
    let worse = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "some"}}});
    assert_eq!(refused(server.merge("namespaces", "default", worse)).0, 422);
}
