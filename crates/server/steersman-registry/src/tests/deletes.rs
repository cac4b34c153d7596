//! Tests of deletes: preconditions, finalizers, grace periods, dependents, namespaces.

use super::*;

fn held(name: &str) -> Value {
    let mut body = config_map(name);
    body["metadata"]["finalizers"] = json!(["g.example.com/hold"]);
    body
}

fn object(deleted: Deleted) -> Value {
    match deleted {
        Deleted::Held(object) | Deleted::Last(object) => object.value().clone(),
        Deleted::Gone(status) => panic!("gone: {status:?}"),
    }
}

fn gone(deleted: Deleted) -> Status {
    match deleted {
        Deleted::Gone(status) => *status,
        Deleted::Held(object) | Deleted::Last(object) => panic!("still there: {}", object.value()),
    }
}

fn exists(server: &Server, plural: &str, name: &str) -> bool {
    server.get(plural, name).is_ok()
}

#[test]
fn a_delete_answers_a_status_or_the_object() {
    let mut server = Server::new();
    let made = server.create("deployments", deployment("d")).unwrap();
    let status = gone(server.delete("deployments", "d").unwrap());
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "d", "group": "apps", "kind": "deployments",
                "uid": made["metadata"]["uid"]}})
    );
    assert_eq!(refused(server.delete("deployments", "d")).0, 404);
    server.create("pods", pod("p", None)).unwrap();
    let last = object(server.delete("pods", "p").unwrap());
    assert_eq!(last["metadata"]["generation"], 2);
    assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(!exists(&server, "pods", "p"));
}

#[test]
fn an_object_stays_until_its_finalizer_is_removed() {
    let mut server = Server::new();
    server.create("configmaps", held("f")).unwrap();
    let marked = object(server.delete("configmaps", "f").unwrap());
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-02T03:04:05Z"
    );
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(object(server.delete("configmaps", "f").unwrap()), marked);
    let late = json!({"metadata": {"finalizers": ["g.example.com/hold", "g.example.com/late"]}});
    assert_eq!(
        refused(server.merge("configmaps", "f", late)).1,
        "ConfigMap \"f\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"g.example.com/late\"}"
    );
    assert_eq!(
        refused(server.create("configmaps", config_map("f"))).1,
        "object is being deleted: configmaps \"f\" already exists"
    );
    let undelete = json!({"metadata": {"deletionTimestamp": null, "labels": {"a": "b"}}});
    let kept = server.merge("configmaps", "f", undelete).unwrap();
    assert_eq!(
        kept["metadata"]["deletionTimestamp"],
        "2026-01-02T03:04:05Z"
    );
    let free = json!({"metadata": {"finalizers": null}});
    let last = server.merge("configmaps", "f", free).unwrap();
    assert!(last["metadata"].get("finalizers").is_none());
    // SRV-REG-5: the update that removes the last finalizer is not stored, so its response has the stored resource
    // version.
    assert_eq!(version(&last), version(&kept));
    assert_eq!(server.registry.revision(), version(&kept) + 1);
    assert!(!exists(&server, "configmaps", "f"));
    server.create("configmaps", config_map("f")).unwrap();
}

#[test]
fn a_delete_raises_the_generation() {
    let mut server = Server::new();
    let mut body = deployment("g");
    body["metadata"]["finalizers"] = json!(["g.example.com/hold"]);
    server.create("deployments", body).unwrap();
    let generation = |object: Value| object["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(
        generation(object(server.delete("deployments", "g").unwrap())),
        2
    );
    let spec = json!({"spec": {"replicas": 3}});
    assert_eq!(
        generation(server.merge("deployments", "g", spec).unwrap()),
        3
    );
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        generation(server.merge("deployments", "g", free).unwrap()),
        3
    );
}

#[test]
fn preconditions_must_hold() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("p")).unwrap();
    let second = server
        .merge("configmaps", "p", json!({"data": {"a": "2"}}))
        .unwrap();
    let (old, new) = (version(&first), version(&second));
    let by_version = |v: u64| json!({"preconditions": {"resourceVersion": v.to_string()}});
    assert_eq!(
        refused(server.delete_with("configmaps", "p", by_version(old))),
        (
            409,
            format!(
                "Operation cannot be fulfilled on ConfigMap \"p\": the ResourceVersion in the precondition ({old}) does not match the ResourceVersion in record ({new}). The object might have been modified"
            )
        )
    );
    let by_uid = json!({"preconditions": {"uid": "other"}});
    assert_eq!(
        refused(server.delete_with("configmaps", "p", by_uid)).0,
        409
    );
    gone(
        server
            .delete_with("configmaps", "p", by_version(new))
            .unwrap(),
    );
}

#[test]
fn a_pod_on_a_node_has_a_grace_period() {
    let mut server = Server::new();
    server.create("pods", pod("p", Some("n"))).unwrap();
    let marked = object(
        server
            .delete_with("pods", "p", json!({"gracePeriodSeconds": 20}))
            .unwrap(),
    );
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-02T03:04:25Z"
    );
    assert_eq!(marked["metadata"]["generation"], 2);
    for (asked, left) in [(50, 20), (5, 5)] {
        let options = json!({"gracePeriodSeconds": asked});
        let marked = object(server.delete_with("pods", "p", options).unwrap());
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], left);
        assert_eq!(marked["metadata"]["generation"], 2);
    }
    let last = object(
        server
            .delete_with("pods", "p", json!({"gracePeriodSeconds": 0}))
            .unwrap(),
    );
    assert_eq!(last["metadata"]["generation"], 2);
    assert!(!exists(&server, "pods", "p"));
    server.create("pods", pod("p", Some("n"))).unwrap();
    let phase = (PatchKind::Merge, json!({"status": {"phase": "Succeeded"}}));
    server
        .patch("pods", "p", Subresource::Status, phase)
        .unwrap();
    server.delete("pods", "p").unwrap();
    assert!(!exists(&server, "pods", "p"));
    server.create("pods", pod("p", Some("n"))).unwrap();
    let huge = json!({"gracePeriodSeconds": i64::MAX});
    assert!(server.delete_with("pods", "p", huge).is_ok());
}

#[test]
fn delete_options_are_validated() {
    let mut server = Server::new();
    server.create("configmaps", config_map("p")).unwrap();
    let sideways = json!({"propagationPolicy": "Sideways"});
    assert_eq!(
        refused(server.delete_with("configmaps", "p", sideways)).1,
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    assert_eq!(refused(server.delete_with("configmaps", "p", both)).0, 422);
    gone(
        server
            .delete_with("configmaps", "p", json!({"dryRun": ["All"]}))
            .unwrap(),
    );
    assert!(exists(&server, "configmaps", "p"));
}

#[test]
fn without_controllers_propagation_policies_become_finalizers() {
    let mut server = Server::alone();
    server.create("configmaps", config_map("o")).unwrap();
    let finalizers = |deleted: Deleted| object(deleted)["metadata"]["finalizers"].clone();
    let policy = |policy: &str| json!({"propagationPolicy": policy});
    let deleted = server
        .delete_with("configmaps", "o", policy("Foreground"))
        .unwrap();
    assert_eq!(finalizers(deleted), json!(["foregroundDeletion"]));
    let deleted = server
        .delete_with("configmaps", "o", policy("Orphan"))
        .unwrap();
    assert_eq!(finalizers(deleted), json!(["orphan"]));
    gone(
        server
            .delete_with("configmaps", "o", policy("Background"))
            .unwrap(),
    );
}

#[test]
fn deletecollection_deletes_only_selected_objects() {
    let mut server = Server::new();
    for (name, label) in [("a", "1"), ("b", "1"), ("c", "2")] {
        let mut body = if name == "b" {
            held(name)
        } else {
            config_map(name)
        };
        body["metadata"]["labels"] = json!({"s": label});
        server.create("configmaps", body).unwrap();
    }
    let resource = server.resource("configmaps");
    let selection = ListQuery {
        label_selector: Some("s=1".to_owned()),
        ..ListQuery::default()
    };
    let options = DeleteOptions::default();
    let now = server.now;
    let page = server
        .registry
        .delete_collection(
            ObjectTarget::collection(&resource, Some("default")),
            &selection,
            &options,
            now,
        )
        .unwrap();
    assert_eq!(page.items.len(), 2);
    assert!(
        page.items[1].value()["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
    assert_eq!(
        server.names("configmaps", &ListQuery::default()),
        ["b", "c"]
    );
    assert!(
        server.get("configmaps", "b").unwrap()["metadata"]
            .get("deletionTimestamp")
            .is_some()
    );
}

#[test]
fn a_deleted_namespace_deletes_its_content() {
    let mut server = Server::new();
    let body = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["g.example.com/mine"]},
        "status": {"phase": "Terminating"}});
    let made = server.create("namespaces", body).unwrap();
    assert_eq!(made["status"], json!({"phase": "Active"}));
    assert_eq!(
        made["spec"]["finalizers"],
        json!(["g.example.com/mine", "kubernetes"])
    );
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "n"
    );
    let made = server
        .create("namespaces", json!({"metadata": {"name": "m"}}))
        .unwrap();
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    let maps = server.resource("configmaps");
    let (options, now) = (WriteOptions::default(), server.now);
    for body in [config_map("a"), held("b")] {
        server
            .registry
            .create(
                ObjectTarget::collection(&maps, Some("m")),
                body,
                &options,
                now,
            )
            .unwrap();
    }
    let marked = object(server.delete("namespaces", "m").unwrap());
    assert_eq!(marked["status"], json!({"phase": "Terminating"}));
    let left = server
        .registry
        .list(&maps, Some("m"), &ListQuery::default())
        .unwrap();
    assert_eq!(left.items.len(), 1);
    let late = server.registry.create(
        ObjectTarget::collection(&maps, Some("m")),
        config_map("c"),
        &options,
        now,
    );
    let late = late.unwrap_err();
    assert_eq!(
        (late.code, late.message.as_str()),
        (
            403,
            "configmaps \"c\" is forbidden: unable to create new content in namespace m because it is being terminated"
        )
    );
    assert_eq!(
        late.details.unwrap().causes[0].reason,
        "NamespaceTerminating"
    );
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let kind = PatchKind::Merge;
    let main = Subresource::Main;
    let (name, free) = ("b", free.as_bytes());
    server
        .registry
        .patch(
            ObjectTarget::object(&maps, Some("m"), name).part(main),
            kind,
            free,
            &options,
            now,
        )
        .unwrap();
    assert!(!exists(&server, "namespaces", "m"));
}

#[test]
fn system_objects_cannot_be_deleted() {
    let mut server = Server::new();
    assert_eq!(
        refused(server.delete("namespaces", "default")),
        (
            403,
            "namespaces \"default\" is forbidden: this namespace may not be deleted".to_owned()
        )
    );
    let text = "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and cannot be deleted";
    assert_eq!(
        refused(server.delete("priorityclasses", "system-node-critical")),
        (403, text.to_owned())
    );
}

/// If a second delete has a shorter grace period, this counts from the first delete, and may be over already.
#[test]
fn a_shorter_grace_period_counts_from_the_first_delete() {
    let mut server = Server::new();
    server.create("pods", pod("p", Some("node-1"))).unwrap();
    server.delete("pods", "p").unwrap();
    let first = server.get("pods", "p").unwrap();
    assert_eq!(
        first["metadata"]["deletionTimestamp"],
        "2026-01-02T03:04:35Z"
    );
    server.now += jiff::SignedDuration::from_secs(10);
    server
        .delete_with("pods", "p", json!({"gracePeriodSeconds": 5}))
        .unwrap();
    let second = server.get("pods", "p").unwrap();
    assert_eq!(
        second["metadata"]["deletionTimestamp"],
        "2026-01-02T03:04:10Z"
    );
    assert_eq!(second["metadata"]["deletionGracePeriodSeconds"], 5);
}
