//! Tests of managedFields that are computed only when an object is serialised, after its write has ended.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_store::Stored;

use super::{Server, deployment};
use crate::{ListQuery, ObjectTarget, PatchKind, Subresource, WatchEvent, WriteOptions};

mod client_side_apply;

fn by(manager: &str) -> WriteOptions {
    WriteOptions {
        field_manager: Some(manager.to_owned()),
        ..WriteOptions::default()
    }
}

impl Server {
    /// Updates the object `a` as the field manager `manager`: applies `change` to its stored state, and returns the
    /// result.
    fn rewrite(
        &mut self,
        (plural, part, manager): (&str, Subresource, &str),
        change: impl FnOnce(&mut Value),
    ) -> Arc<Stored> {
        let resource = self.resource(plural);
        let mut body = self.stored(plural).lean().clone();
        change(&mut body);
        let target = ObjectTarget::object(&resource, Self::namespace(&resource), "a").part(part);
        let written = self
            .registry
            .update(target, body, &by(manager), self.now)
            .unwrap();
        written.object.stored
    }

    fn create_by(&mut self, manager: &str, plural: &str, body: Value) {
        let resource = self.resource(plural);
        let target = ObjectTarget::collection(&resource, Self::namespace(&resource));
        let created = self.registry.create(target, body, &by(manager), self.now);
        created.unwrap();
    }

    fn stored(&self, plural: &str) -> Arc<Stored> {
        let resource = self.resource(plural);
        let namespace = Self::namespace(&resource).unwrap_or_default();
        let stored = self.registry.store().get(&resource.storage, namespace, "a");
        Arc::clone(stored.unwrap())
    }
}

/// Creates a Deployment and updates it several times, each time as another field manager.
fn write_a_deployment(server: &mut Server) {
    server.create_by("creator", "deployments", deployment("a"));
    server.rewrite(("deployments", Subresource::Status, "status"), |new| {
        new["metadata"]["annotations"] = json!({"revision": "1"});
        new["status"] = json!({"replicas": 1, "conditions": [
            {"type": "Available", "status": "False", "reason": "r", "message": "m"}]});
    });
    server.rewrite(("deployments", Subresource::Status, "other"), |new| {
        new["status"]["conditions"][0]["status"] = json!("True");
        new["status"]["observedGeneration"] = json!(1);
        new["status"].as_object_mut().unwrap().remove("replicas");
    });
    server.rewrite(("deployments", Subresource::Main, "labels"), |new| {
        new["metadata"]["labels"] = json!({"a": "b"});
        new["spec"]["replicas"] = json!(3);
        new["status"] = json!({"replicas": 9});
    });
    // A client sends managedFields with a field that only the server sets, which no client can own.
    server.rewrite(("deployments", Subresource::Main, "sender"), |new| {
        new["metadata"]["managedFields"] = json!([
            {"manager": "m", "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "time": "2020-01-01T00:00:00Z", "fieldsV1":
                {"f:metadata": {"f:generation": {}, "f:labels": {"f:a": {}}},
                    "f:spec": {"f:replicas": {}}}},
        ]);
        new["spec"]["replicas"] = json!(4);
    });
    server.rewrite(("deployments", Subresource::Main, "sender"), |new| {
        new["metadata"]["managedFields"] = json!([
            {"manager": "m", "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "time": "2020-01-01T00:00:00Z", "fieldsV1":
                {"f:metadata": {"f:resourceVersion": {}}, "f:spec": {"f:paused": {}}}},
        ]);
        new["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        new["spec"]["replicas"] = json!(5);
    });
}

/// Patches the Deployment of `write_a_deployment` with every type of patch.
fn patch_a_deployment(server: &mut Server) {
    let resource = server.resource("deployments");
    let now = server.now;
    for (part, kind, patch) in [
        (
            Subresource::Main,
            PatchKind::Merge,
            json!({"spec": {"paused": true}}),
        ),
        (
            Subresource::Main,
            PatchKind::Strategic,
            json!({"spec": {"template": {"spec": {"containers": [
                {"name": "sidecar", "image": "i:2"}]}}}}),
        ),
        (
            Subresource::Main,
            PatchKind::Apply,
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "a", "labels": {"c": "d"}}}),
        ),
        (
            Subresource::Scale,
            PatchKind::Merge,
            json!({"spec": {"replicas": 7}}),
        ),
        (
            Subresource::Status,
            PatchKind::Merge,
            json!({"status": {"replicas": 2}}),
        ),
        // This patch changes nothing.
        (
            Subresource::Status,
            PatchKind::Merge,
            json!({"status": {"replicas": 2}}),
        ),
    ] {
        let target = ObjectTarget::object(&resource, Some("default"), "a").part(part);
        let body = patch.to_string();
        let options = by(&format!("{part:?}-{kind:?}"));
        server
            .registry
            .patch(target, kind, body.as_bytes(), &options, now)
            .unwrap();
    }
}

/// Creates objects of kinds with fields that the server or a plugin adds, and updates their special subresources.
fn write_other_kinds(server: &mut Server) {
    let pod = json!({"metadata": {"name": "a", "ownerReferences": []}, "spec": {
        "containers": [{"name": "c", "image": "i:1", "env": [], "resources": {"requests": {"cpu": "1"}}}], "tolerations": []}});
    server.create_by("creator", "pods", pod);
    server.rewrite(
        ("pods", Subresource::EphemeralContainers, "debugger"),
        |new| {
            new["metadata"]["labels"] = json!({"a": "b"});
            new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i:2"}]);
        },
    );
    server.rewrite(("pods", Subresource::Resize, "resizer"), |new| {
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    });
    server.rewrite(("pods", Subresource::Status, "kubelet"), |new| {
        new["status"]["phase"] = json!("Running");
    });
    let service = json!({"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    server.create_by("creator", "services", service);
    server.rewrite(("services", Subresource::Status, "status"), |new| {
        new["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    });
    let volume = json!({"metadata": {"name": "a"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}});
    server.create_by("creator", "persistentvolumes", volume);
    server.rewrite(
        ("persistentvolumes", Subresource::Status, "binder"),
        |new| {
            new["status"]["phase"] = json!("Bound");
        },
    );
}

/// SRV-STORE-10: a server with a policy must compute managedFields during each write, because policies get them. The
/// result is the same as that of a server without policies, which computes them later.
#[test]
fn managed_fields_are_the_same_whenever_they_are_computed() {
    let (mut at_once, mut later) = (Server::new(), Server::new());
    let binding = json!({"metadata": {"name": "x"},
        "spec": {"policyName": "absent", "validationActions": ["Deny"]}});
    at_once
        .create("validatingadmissionpolicybindings", binding)
        .unwrap();
    let class = json!({"metadata": {"name": "x"}, "value": 1});
    later.create("priorityclasses", class).unwrap();
    let resource = later.resource("deployments");
    assert!(at_once.registry.shows_managed(&resource));
    assert!(!later.registry.shows_managed(&resource));
    for server in [&mut at_once, &mut later] {
        write_a_deployment(server);
        patch_a_deployment(server);
        write_other_kinds(server);
    }
    for (plural, changes) in [
        ("deployments", 11),
        ("pods", 4),
        ("services", 2),
        ("persistentvolumes", 2),
    ] {
        let storage = later.resource(plural).storage.clone();
        let texts = |server: &Server| -> Vec<String> {
            let changes = server.registry.store().changes(&storage, 0).ok().unwrap();
            changes
                .map(|change| String::from_utf8(change.new.bytes().to_vec()).unwrap())
                .collect()
        };
        assert_eq!(texts(&later), texts(&at_once));
        assert_eq!(texts(&later).len(), changes, "{plural}");
    }
}

/// SRV-STORE-10: writes do not serialise the object. When a revision is serialised, its managedFields are computed from
/// those of all revisions before it.
#[test]
fn the_newest_of_many_unread_revisions_has_its_managed_fields() {
    let mut server = Server::new();
    server.create_by("creator", "deployments", deployment("a"));
    let mut all = vec![server.stored("deployments")];
    for replicas in 1..250 {
        all.push(
            server.rewrite(("deployments", Subresource::Status, "m"), |new| {
                new["status"] = json!({"replicas": replicas});
            }),
        );
    }
    assert!(!all.iter().any(|one| one.is_serialised()));
    let managed = all.last().unwrap().managed().unwrap();
    let managed: Value = serde_json::from_str(managed).unwrap();
    let own = managed.as_array().unwrap().iter();
    let own: Vec<_> = own.filter(|entry| entry["manager"] == "m").collect();
    assert_eq!(own[0]["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
}

/// SRV-STORE-10: a poll of a watch returns objects without serialising them.
#[test]
fn a_poll_serialises_nothing() {
    let mut server = Server::new();
    let options = ListQuery::default();
    let mut cursor = server.watch("deployments", &options).unwrap();
    server.create_by("creator", "deployments", deployment("a"));
    let events = server.registry.poll(&mut cursor, 10);
    let Some(WatchEvent::Added(object)) = events.last() else {
        panic!("{events:?}");
    };
    assert!(!object.stored.is_serialised());
}
