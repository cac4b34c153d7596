//! Tests of rules that hold for one built-in kind only.

use super::*;

mod stored_forms;

#[test]
fn a_status_that_does_not_add_up_is_refused() {
    let mut server = Server::new();
    server.create("deployments", deployment("d")).unwrap();
    let mut refusal = |plural: &str, name: &str, status: Value| {
        let patch = (PatchKind::Merge, json!({"status": status}));
        refused(server.patch(plural, name, Subresource::Status, patch)).1
    };
    assert_eq!(
        refusal(
            "deployments",
            "d",
            json!({"replicas": 1, "readyReplicas": 2, "observedGeneration": -1})
        ),
        "Deployment.apps \"d\" is invalid: [status.observedGeneration: Invalid value: -1: must be greater than or equal to 0, status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas]"
    );
    assert_eq!(
        refusal("namespaces", "default", json!({"phase": "Terminating"})),
        "Namespace \"default\" is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    );
}

#[test]
fn a_namespace_is_finalized_by_its_subresource() {
    let mut server = Server::alone();
    server
        .create("namespaces", json!({"metadata": {"name": "n"}}))
        .unwrap();
    server.delete("namespaces", "n").unwrap();
    let plain = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    let kept = server
        .put("namespaces", Subresource::Main, plain.clone())
        .unwrap();
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]));
    let done = server
        .put("namespaces", Subresource::Finalize, plain)
        .unwrap();
    assert_eq!(done["spec"], json!({}));
    assert_eq!(refused(server.get("namespaces", "n")).0, 404);
}

#[test]
fn leases_and_secrets_are_validated() {
    let mut server = Server::new();
    let mut refusal = |plural: &str, body: Value| refused(server.create(plural, body)).1;
    let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
    assert_eq!(
        refusal(
            "leases",
            lease(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}))
        ),
        "Lease.coordination.k8s.io \"l\" is invalid: [spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]"
    );
    assert_eq!(
        refusal(
            "leases",
            lease(json!({"renewTime": "2026-01-02T03:04:05Z"}))
        ),
        "Lease in version \"v1\" cannot be handled as a Lease: parsing time \"2026-01-02T03:04:05Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
    );
    let secret = |kind: &str, data: Value| json!({"metadata": {"name": "s"}, "type": format!("kubernetes.io/{kind}"), "stringData": data});
    for (kind, data, message) in [
        (
            "tls",
            json!({"tls.crt": ""}),
            "data[tls.key]: Required value",
        ),
        (
            "basic-auth",
            json!({}),
            "[data[username]: Required value, data[password]: Required value]",
        ),
        (
            "dockerconfigjson",
            json!({".dockerconfigjson": "{"}),
            "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input",
        ),
    ] {
        let refused = refusal("secrets", secret(kind, data));
        assert_eq!(refused, format!("Secret \"s\" is invalid: {message}"));
    }
}

#[test]
fn one_event_is_seen_in_both_groups() {
    let mut server = Server::new();
    let event = json!({"metadata": {"name": "e"}, "message": "m", "reason": "R",
        "involvedObject": {"kind": "K", "namespace": "default"}});
    server.create("events", event).unwrap();
    let newer = server
        .registry
        .resource("events.k8s.io", "v1", "events")
        .unwrap();
    let seen = server
        .registry
        .get(
            ObjectTarget::object(&newer, Some("default"), "e").part(Subresource::Main),
            None,
        )
        .unwrap();
    assert_eq!(seen.value()["note"], "m");
    assert_eq!(seen.value()["apiVersion"], "events.k8s.io/v1");
    let patch = br#"{"series": {"count": 2}}"#;
    server
        .registry
        .patch(
            ObjectTarget::object(&newer, Some("default"), "e").part(Subresource::Main),
            PatchKind::Merge,
            patch,
            &WriteOptions::default(),
            server.now,
        )
        .unwrap();
    let core = server.get("events", "e").unwrap();
    assert_eq!(
        (&core["message"], &core["series"]["count"]),
        (&json!("m"), &json!(2))
    );
}

#[test]
fn an_update_repeats_label_errors_as_often_as_the_real_server() {
    let mut server = Server::new();
    server
        .create("configmaps", json!({"metadata": {"name": "c"}}))
        .unwrap();
    let patch = json!({"metadata": {"labels": {"a b": "c"}}});
    let refusal = server.merge("configmaps", "c", patch).unwrap_err();
    assert_eq!(refusal.details.unwrap().causes.len(), 4);
}

#[test]
fn nodes_begin_tainted_and_volumes_protected() {
    let mut server = Server::alone();
    let node = server
        .create(
            "nodes",
            json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}),
        )
        .unwrap();
    assert_eq!(
        node["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let made = server
        .create("persistentvolumeclaims", claim.clone())
        .unwrap();
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
    server.delete("persistentvolumeclaims", "c").unwrap();
    assert!(server.get("persistentvolumeclaims", "c").is_ok());
    // On a server with the garbage collector, a delete removes the protection finalizer of a claim, so the claim goes.
    let mut server = Server::new();
    let made = server.create("persistentvolumeclaims", claim).unwrap();
    assert!(made["metadata"]["finalizers"].is_array());
    server.delete("persistentvolumeclaims", "c").unwrap();
    assert_eq!(refused(server.get("persistentvolumeclaims", "c")).0, 404);
}

#[test]
fn a_job_without_labels_has_all_labels_of_its_template() {
    let mut server = Server::new();
    let mut labels_of = |name: &str, own: Value, of_template: Value| {
        let body = json!({
            "metadata": {"name": name, "labels": own},
            "spec": {"template": {"metadata": {"labels": of_template}, "spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        });
        let made = server.create("jobs", body).unwrap();
        let labels = made["metadata"]["labels"].as_object().unwrap();
        labels.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let generated =
        "batch.kubernetes.io/controller-uid batch.kubernetes.io/job-name controller-uid job-name";
    assert_eq!(labels_of("a", Value::Null, Value::Null), generated);
    let of_template = json!({"app": "x"});
    let both = format!("app {generated}");
    assert_eq!(labels_of("b", Value::Null, of_template.clone()), both);
    assert_eq!(labels_of("c", of_template.clone(), of_template), "app");
}

#[test]
fn the_fields_of_a_claim_reference_have_owners_of_their_own() {
    let mut server = Server::new();
    let volume = json!({
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"}, "claimRef": {"namespace": "default", "name": "c"}},
    });
    let made = server.create("persistentvolumes", volume).unwrap();
    let fields = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(
        fields["f:spec"]["f:claimRef"],
        json!({".": {}, "f:name": {}, "f:namespace": {}})
    );
}

#[test]
fn the_claim_of_an_ephemeral_volume_has_metadata() {
    let mut server = Server::new();
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": claim}}]}});
    let made = server.create("pods", pod).unwrap();
    let template = &made["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"];
    assert_eq!(template["metadata"], json!({}));
}
