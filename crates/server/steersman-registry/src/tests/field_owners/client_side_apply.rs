//! Tests of the change from client-side to server-side apply: the server-side apply of `kubectl` takes over fields from
//! the manager of the client-side apply, and updates the annotation with the last configuration.

use serde_json::{Value, json};

use super::super::{Done, Server, refused};
use crate::{ObjectTarget, PatchKind, Subresource, WriteOptions};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns a ConfigMap as a client-side `kubectl apply` creates it: with the configuration in an annotation.
fn applied_on_the_client(data: &Value) -> Value {
    let mut object = configuration(data);
    let mut noted = object.clone();
    noted["metadata"]["annotations"] = json!({});
    object["metadata"]["annotations"] = json!({ANNOTATION: format!("{noted}\n")});
    object
}

fn configuration(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"}, "data": data})
}

impl Server {
    fn create_on_the_client(&mut self, data: &Value) {
        let resource = self.resource("configmaps");
        let target = ObjectTarget::collection(&resource, Some("default"));
        let options = WriteOptions {
            field_manager: Some("kubectl-client-side-apply".to_owned()),
            ..WriteOptions::default()
        };
        let body = applied_on_the_client(data);
        let created = self.registry.create(target, body, &options, self.now);
        created.unwrap();
    }

    fn apply_by(&mut self, manager: &str, configuration: &Value) -> Done<Value> {
        let resource = self.resource("configmaps");
        let target = ObjectTarget::object(&resource, Some("default"), "a");
        let options = WriteOptions {
            field_manager: Some(manager.to_owned()),
            ..WriteOptions::default()
        };
        let body = configuration.to_string();
        let (kind, now) = (PatchKind::Apply, self.now);
        let written = self
            .registry
            .patch(target, kind, body.as_bytes(), &options, now)?;
        Ok(written.object.value().clone())
    }
}

fn noted(object: &Value) -> &str {
    let annotations = &object["metadata"]["annotations"];
    annotations[ANNOTATION].as_str().unwrap_or_default()
}

#[test]
fn kubectl_takes_over_what_client_side_apply_wrote() {
    let mut server = Server::new();
    server.create_on_the_client(&json!({"k": "1", "l": "1"}));
    let done = server
        .apply_by("kubectl", &configuration(&json!({"k": "2", "l": "1"})))
        .unwrap();
    assert_eq!(done["data"], json!({"k": "2", "l": "1"}));
    let managers = done["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers[0]["manager"], "kubectl");
    assert_eq!(
        managers[0]["fieldsV1"],
        json!({"f:data": {"f:k": {}, "f:l": {}}})
    );
    // The manager of the client-side apply still owns the fields that the server-side apply did not change.
    assert_eq!(managers[1]["manager"], "kubectl-client-side-apply");
    assert_eq!(
        managers[1]["fieldsV1"]["f:data"],
        json!({".": {}, "f:l": {}})
    );
    assert_eq!(
        noted(&done),
        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\",\"l\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\"}}\n"
    );
}

/// A field that another manager has changed since the last client-side apply is a conflict of the server-side apply.
/// The fields of the client-side apply itself are not reported as conflicts.
#[test]
fn a_field_that_was_changed_since_is_a_conflict() {
    let mut server = Server::new();
    server.create_on_the_client(&json!({"k": "1", "l": "1"}));
    let resource = server.resource("configmaps");
    let target = ObjectTarget::object(&resource, Some("default"), "a");
    let edit = WriteOptions {
        field_manager: Some("kubectl-edit".to_owned()),
        ..WriteOptions::default()
    };
    let patch = json!({"data": {"l": "edited"}}).to_string();
    let (kind, now) = (PatchKind::Merge, server.now);
    server
        .registry
        .patch(target, kind, patch.as_bytes(), &edit, now)
        .unwrap();
    let changed = configuration(&json!({"k": "2", "l": "2"}));
    let (code, message) = refused(server.apply_by("kubectl", &changed));
    assert_eq!(code, 409);
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using v1: .data.l"
    );
    // The refused apply has written nothing. Only an apply as `kubectl` takes over fields of the client-side apply, so
    // an apply as another manager conflicts with both fields.
    let kept = server.get("configmaps", "a").unwrap();
    assert_eq!(kept["data"]["k"], "1");
    let (_, message) = refused(server.apply_by("other", &changed));
    assert!(
        message.starts_with("Apply failed with 2 conflicts"),
        "{message}"
    );
}

#[test]
fn an_annotation_of_another_version_or_that_is_no_configuration_allows_nothing() {
    for note in [
        "{",
        "\"text\"",
        "{\"apiVersion\":\"v2\",\"kind\":\"ConfigMap\",\"data\":{\"k\":\"1\"}}",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"k\":\"1\"},\"odd\":1}",
    ] {
        let mut server = Server::new();
        server.create_on_the_client(&json!({"k": "1"}));
        let patch = json!({"metadata": {"annotations": {ANNOTATION: note}}});
        server
            .patch(
                "configmaps",
                "a",
                Subresource::Main,
                (PatchKind::Merge, patch),
            )
            .unwrap();
        let changed = configuration(&json!({"k": "2"}));
        assert_eq!(
            refused(server.apply_by("kubectl", &changed)).0,
            409,
            "{note}"
        );
    }
}

#[test]
fn the_annotation_follows_each_apply_by_kubectl_and_no_other() {
    let mut server = Server::new();
    server.create_on_the_client(&json!({"k": "1"}));
    let before = noted(&server.get("configmaps", "a").unwrap()).to_owned();
    // An apply as `kubectl` that changes no other field still updates the annotation.
    let same = configuration(&json!({"k": "1"}));
    let other = server.apply_by("other", &same).unwrap();
    assert_eq!(noted(&other), before);
    let done = server.apply_by("kubectl", &same).unwrap();
    assert_eq!(noted(&done), format!("{same}\n"));
    assert_eq!(server.apply_by("kubectl", &same).unwrap(), done);
    // The annotation has the applied configuration without the annotation itself, and with `<` escaped as Go does.
    let mut more = same.clone();
    more["metadata"]["annotations"] = json!({ANNOTATION: noted(&done), "a": "<b>"});
    let done = server.apply_by("kubectl", &more).unwrap();
    assert_eq!(
        noted(&done),
        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{\"a\":\"\\u003cb\\u003e\"},\"name\":\"a\",\"namespace\":\"default\"}}\n"
    );
    // An object without the annotation does not get one.
    let mut server = Server::new();
    let made = server.apply_by("kubectl", &same).unwrap();
    assert_eq!(noted(&made), "");
    // If the configuration is too large for an annotation, the annotation is removed.
    let mut server = Server::new();
    server.create_on_the_client(&json!({"k": "1"}));
    let large = configuration(&json!({"k": "1", "large": "x".repeat(256 * 1024)}));
    assert_eq!(noted(&server.apply_by("kubectl", &large).unwrap()), "");
}
