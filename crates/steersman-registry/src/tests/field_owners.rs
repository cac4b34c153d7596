//! Tests of field owners that are computed after the write that they follow from.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Server, deployment};
use crate::store::Stored;
use crate::{PatchKind, Subresource, Target, WriteOptions};

fn by(manager: &str) -> WriteOptions {
    WriteOptions {
        field_manager: Some(manager.to_owned()),
        ..WriteOptions::default()
    }
}

impl Server {
    /// Writes the newest state of an object after this change to it, and returns what is stored.
    fn rewrite(
        &mut self,
        (plural, part, manager): (&str, Subresource, &str),
        change: impl FnOnce(&mut Value),
    ) -> Arc<Stored> {
        let resource = self.resource(plural);
        let mut body = self.stored(plural).lean().clone();
        change(&mut body);
        let target = Target::object(&resource, Self::namespace(&resource), "a").part(part);
        let written = self
            .registry
            .update(target, body, &by(manager), self.now)
            .unwrap();
        written.object.stored
    }

    fn stored(&self, plural: &str) -> Arc<Stored> {
        let resource = self.resource(plural);
        let namespace = Self::namespace(&resource).unwrap_or_default();
        let stored = self.registry.stored(&resource.storage, namespace, "a");
        Arc::clone(stored.unwrap())
    }
}

/// Creates an object and writes it in many ways; each write is by another manager.
fn write_in_many_ways(server: &mut Server) {
    let body = deployment("a");
    let resource = server.resource("deployments");
    let collection = Target::collection(&resource, Some("default"));
    let now = server.now;
    server
        .registry
        .create(collection, body, &by("creator"), now)
        .unwrap();
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
    // Fields of the server cannot be owned, whatever a client says.
    server.rewrite(("deployments", Subresource::Main, "sender"), |new| {
        new["metadata"]["managedFields"] = json!([
            {"manager": "m", "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "time": "2020-01-01T00:00:00Z", "fieldsV1":
                {"f:metadata": {"f:generation": {}, "f:labels": {"f:a": {}}},
                    "f:spec": {"f:replicas": {}}}},
        ]);
        new["spec"]["replicas"] = json!(4);
    });
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
        // Changes nothing.
        (
            Subresource::Status,
            PatchKind::Merge,
            json!({"status": {"replicas": 2}}),
        ),
    ] {
        let target = Target::object(&resource, Some("default"), "a").part(part);
        let body = patch.to_string();
        let options = by(&format!("{part:?}-{kind:?}"));
        server
            .registry
            .patch(target, kind, body.as_bytes(), &options, now)
            .unwrap();
    }
}

/// SRV-STORE-10: a policy makes the server compute the owners during the write, because it sees them.
#[test]
fn the_owners_are_the_same_whenever_they_are_computed() {
    let (mut at_once, mut later) = (Server::new(), Server::new());
    let binding = json!({"metadata": {"name": "x"},
        "spec": {"policyName": "absent", "validationActions": ["Deny"]}});
    at_once
        .create("validatingadmissionpolicybindings", binding)
        .unwrap();
    let class = json!({"metadata": {"name": "x"}, "value": 1});
    later.create("priorityclasses", class).unwrap();
    write_in_many_ways(&mut at_once);
    write_in_many_ways(&mut later);
    let storage = later.resource("deployments").storage.clone();
    let texts = |server: &Server| -> Vec<String> {
        let changes = server.registry.changes_after(&storage, 0).unwrap();
        changes
            .map(|change| String::from_utf8(change.new.bytes().to_vec()).unwrap())
            .collect()
    };
    assert_eq!(texts(&later), texts(&at_once));
    assert_eq!(texts(&later).len(), 10);
}

/// SRV-STORE-10: the owners of a revision follow from those of the revision before.
#[test]
fn the_newest_of_many_unread_revisions_has_its_owners() {
    let mut server = Server::new();
    server.create("deployments", deployment("a")).unwrap();
    let mut last = server.stored("deployments");
    for replicas in 1..250 {
        last = server.rewrite(("deployments", Subresource::Status, "m"), |new| {
            new["status"] = json!({"replicas": replicas});
        });
    }
    assert!(!server.stored("deployments").is_serialised());
    let managed: Value = serde_json::from_str(last.managed().unwrap()).unwrap();
    let own = managed.as_array().unwrap().iter();
    let own: Vec<_> = own.filter(|entry| entry["manager"] == "m").collect();
    assert_eq!(own[0]["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
}
