//! Tests of creates, updates, patches and scales.

use super::*;

#[test]
fn a_create_sets_the_fields_of_the_server() {
    let mut server = Server::new();
    let mut body = config_map("own");
    body["metadata"]["uid"] = json!("mine");
    body["metadata"]["creationTimestamp"] = json!("2001-02-03T04:05:06Z");
    body["metadata"]["deletionTimestamp"] = json!("2001-02-03T04:05:06Z");
    body["metadata"]["generation"] = json!(7);
    body["metadata"]["selfLink"] = json!("/x");
    let made = server.create("configmaps", body).unwrap();
    let fields = &made["metadata"];
    assert_eq!(fields["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(fields["namespace"], "default");
    assert_eq!(fields["generation"], 7);
    assert_eq!(fields["uid"].as_str().unwrap().len(), 36);
    assert!(fields.get("deletionTimestamp").is_none() && fields.get("selfLink").is_none());
    assert_eq!(version(&made), server.registry.revision());
    assert_eq!(server.get("configmaps", "own").unwrap(), made);
    let mut body = deployment("d");
    body["metadata"]["generation"] = json!(7);
    body["status"] = json!({"replicas": 3});
    let made = server.create("deployments", body).unwrap();
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"], json!({}));
}

#[test]
fn creates_are_refused_in_the_servers_words() {
    let mut server = Server::new();
    server.create("configmaps", config_map("twin")).unwrap();
    server.create("deployments", deployment("twin")).unwrap();
    assert_eq!(
        refused(server.create("deployments", deployment("twin"))),
        (409, "deployments.apps \"twin\" already exists".to_owned())
    );
    let mut versioned = config_map("rv");
    versioned["metadata"]["resourceVersion"] = json!("12");
    assert_eq!(
        refused(server.create("configmaps", versioned)),
        (
            500,
            "resourceVersion should not be set on objects to be created".to_owned()
        )
    );
    assert_eq!(
        refused(server.create("configmaps", json!({}))),
        (
            422,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
                .to_owned()
        )
    );
    let mut elsewhere = config_map("lost");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    assert_eq!(refused(server.create("configmaps", elsewhere)).0, 400);
    for (body, message) in [
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}}),
            "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
    ] {
        assert_eq!(
            refused(server.create("configmaps", body)),
            (400, message.to_owned())
        );
    }
    let resource = server.resource("configmaps");
    let options = WriteOptions {
        dry_run: vec!["true".to_owned()],
        ..WriteOptions::default()
    };
    let now = server.now;
    let done = server.registry.create(
        ObjectTarget::collection(&resource, Some("default")),
        config_map("x"),
        &options,
        now,
    );
    assert_eq!(
        refused(done).1,
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"true\"]: supported values: \"All\""
    );
    let options = WriteOptions::default();
    let done = server.registry.create(
        ObjectTarget::collection(&resource, Some("none")),
        config_map("x"),
        &options,
        now,
    );
    assert_eq!(
        refused(done),
        (404, "namespaces \"none\" not found".to_owned())
    );
    for body in [json!(7), json!([1]), json!("text")] {
        assert_eq!(refused(server.create("configmaps", body)).0, 400);
    }
}

#[test]
fn several_errors_come_at_once() {
    let mut server = Server::new();
    let mut body = deployment("Bad_");
    body["spec"]["replicas"] = json!(-1);
    body["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
    body["spec"]["template"]["metadata"]["labels"] = json!({"a": "c"});
    body["spec"]["template"]["spec"]["containers"] = json!([]);
    let status = server.create("deployments", body).unwrap_err();
    let fields: Vec<_> = status
        .details
        .unwrap()
        .causes
        .into_iter()
        .map(|cause| cause.field)
        .collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "spec.replicas",
            "spec.template.metadata.labels",
            "spec.template.spec.containers"
        ]
    );
}

#[test]
fn generate_name_adds_five_letters() {
    let mut server = Server::new();
    let mut body = config_map("");
    body["metadata"] = json!({"generateName": "made-"});
    let one = server.create("configmaps", body.clone()).unwrap();
    let two = server.create("configmaps", body).unwrap();
    let name = one["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("made-") && name.len() == 10);
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut server = Server::new();
    let resource = server.resource("configmaps");
    let options = WriteOptions {
        dry_run: vec!["All".to_owned()],
        ..WriteOptions::default()
    };
    let (before, now) = (server.registry.revision(), server.now);
    let made = server
        .registry
        .create(
            ObjectTarget::collection(&resource, Some("default")),
            config_map("x"),
            &options,
            now,
        )
        .unwrap();
    assert!(
        made.object.value()["metadata"]
            .get("resourceVersion")
            .is_none()
    );
    assert!(server.get("configmaps", "x").unwrap_err().is_not_found());
    assert_eq!(server.registry.revision(), before);
}

/// SRV-REG-2: an update with another resource version than the stored one gets 409.
#[test]
fn an_update_lands_on_the_version_it_names() {
    let mut server = Server::new();
    let first = server.create("configmaps", config_map("u")).unwrap();
    let mut body = first.clone();
    body["data"]["a"] = json!("2");
    let second = server
        .put("configmaps", Subresource::Main, body.clone())
        .unwrap();
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert!(version(&second) > version(&first));
    body["data"]["a"] = json!("3");
    assert_eq!(
        refused(server.put("configmaps", Subresource::Main, body.clone())),
        (
            409,
            "Operation cannot be fulfilled on configmaps \"u\": the object has been modified; please apply your changes to the latest version and try again"
                .to_owned()
        )
    );
    body["metadata"]["resourceVersion"] = json!("0");
    server
        .put("configmaps", Subresource::Main, body.clone())
        .unwrap();
    body["metadata"]["resourceVersion"] = json!("abc");
    assert_eq!(
        refused(server.put("configmaps", Subresource::Main, body)),
        (
            500,
            "strconv.ParseUint: parsing \"abc\": invalid syntax".to_owned()
        )
    );
    let stale = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}});
    assert_eq!(refused(server.merge("configmaps", "u", stale)).0, 409);
}

#[test]
fn a_wrong_uid_is_a_conflict_on_put_and_invalid_on_patch() {
    let mut server = Server::new();
    let made = server.create("configmaps", config_map("u")).unwrap();
    let mut body = made.clone();
    body["metadata"]["uid"] = json!("other");
    let (code, message) = refused(server.put("configmaps", Subresource::Main, body));
    assert_eq!(code, 409);
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert!(message.ends_with(&format!(
        "Key: /registry/configmaps/default/u, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    )));
    let patch = json!({"metadata": {"uid": "other"}});
    let status = server.merge("configmaps", "u", patch).unwrap_err();
    assert_eq!(
        status.message,
        "ConfigMap \"u\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"
    );
    assert_eq!(status.details.unwrap().causes.len(), 2);
}

#[test]
fn names_and_namespaces_are_immutable() {
    let mut server = Server::new();
    server.create("configmaps", config_map("c")).unwrap();
    assert_eq!(
        refused(server.merge("configmaps", "c", json!({"metadata": {"name": "d"}}))),
        (
            400,
            "the name of the object (d) does not match the name on the URL (c)".to_owned()
        )
    );
    let elsewhere = json!({"metadata": {"namespace": "elsewhere"}});
    assert_eq!(
        refused(server.merge("configmaps", "c", elsewhere)).1,
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    let patch = json!([{"op": "remove", "path": "/metadata/name"}]);
    assert_eq!(
        refused(server.patch(
            "configmaps",
            "c",
            Subresource::Main,
            (PatchKind::Json, patch)
        ))
        .1,
        "the name of the object (c based on URL) was undeterminable: name must be provided"
    );
    let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}});
    let kept = server.merge("configmaps", "c", patch).unwrap();
    assert_eq!(
        kept["metadata"]["creationTimestamp"],
        "2026-01-02T03:04:05Z"
    );
    let patch = json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}});
    assert_eq!(refused(server.merge("configmaps", "c", patch)).0, 422);
}

/// SRV-REG-4: a write that changes nothing keeps the resource version of the object.
#[test]
fn a_write_that_changes_nothing_makes_no_revision() {
    let mut server = Server::new();
    let made = server.create("deployments", deployment("n")).unwrap();
    let before = server.registry.revision();
    assert_eq!(
        server
            .put("deployments", Subresource::Main, deployment("n"))
            .unwrap(),
        made
    );
    assert_eq!(server.merge("deployments", "n", json!({})).unwrap(), made);
    assert_eq!(
        server
            .merge("deployments", "n", json!({"spec": {"replicas": 1}}))
            .unwrap(),
        made
    );
    assert_eq!(server.registry.revision(), before);
    assert!(!server.registry.take_changed().is_empty());
    server.merge("deployments", "n", json!({})).unwrap();
    assert!(server.registry.take_changed().is_empty());
}

/// SRV-REG-3: a change of the spec raises the generation; a change of metadata or status does not.
#[test]
fn the_generation_counts_changes_of_the_spec() {
    let mut server = Server::new();
    server.create("deployments", deployment("g")).unwrap();
    let generation = |object: Value| object["metadata"]["generation"].as_i64().unwrap();
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    assert_eq!(
        generation(server.merge("deployments", "g", labels).unwrap()),
        1
    );
    let counted = json!({"status": {"replicas": 1, "readyReplicas": 1}});
    let status = (PatchKind::Merge, counted.clone());
    let patched = server
        .patch("deployments", "g", Subresource::Status, status)
        .unwrap();
    assert_eq!(patched["status"], counted["status"]);
    assert_eq!(generation(patched), 1);
    let spec = json!({"spec": {"replicas": 2}});
    assert_eq!(
        generation(server.merge("deployments", "g", spec).unwrap()),
        2
    );
}

#[test]
fn status_and_object_are_written_by_separate_paths() {
    let mut server = Server::new();
    server.create("deployments", deployment("d")).unwrap();
    let mut body = deployment("d");
    body["metadata"]["labels"] = json!({"x": "y"});
    body["spec"]["replicas"] = json!(9);
    body["status"] = json!({"replicas": 3});
    let done = server
        .put("deployments", Subresource::Status, body)
        .unwrap();
    assert_eq!(
        (&done["status"]["replicas"], &done["spec"]["replicas"]),
        (&json!(3), &json!(1))
    );
    assert!(done["metadata"].get("labels").is_none());
    let patch = json!({"spec": {"replicas": 2}, "status": {"replicas": 7}});
    let done = server.merge("deployments", "d", patch).unwrap();
    assert_eq!(
        (&done["status"]["replicas"], &done["spec"]["replicas"]),
        (&json!(3), &json!(2))
    );
    server.create("pods", pod("p", None)).unwrap();
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}});
    let done = server
        .patch("pods", "p", Subresource::Status, (PatchKind::Merge, patch))
        .unwrap();
    assert_eq!(done["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(done["status"]["phase"], "Running");
}

#[test]
fn the_scale_reads_and_writes_the_replicas() {
    let mut server = Server::new();
    let made = server.create("deployments", deployment("d")).unwrap();
    let scale = server
        .get_part("deployments", "d", Subresource::Scale)
        .unwrap();
    assert_eq!(
        scale,
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {
            "name": "d", "namespace": "default", "uid": made["metadata"]["uid"],
            "resourceVersion": made["metadata"]["resourceVersion"],
            "creationTimestamp": made["metadata"]["creationTimestamp"]},
            "spec": {"replicas": 1}, "status": {"replicas": 0, "selector": "app=d"}})
    );
    let mut wish = scale;
    wish["spec"]["replicas"] = json!(5);
    let done = server
        .put("deployments", Subresource::Scale, wish.clone())
        .unwrap();
    assert_eq!(done["spec"]["replicas"], 5);
    let stored = server.get("deployments", "d").unwrap();
    assert_eq!(stored["spec"]["replicas"], 5);
    assert_eq!(stored["metadata"]["generation"], 2);
    assert_eq!(
        refused(server.put("deployments", Subresource::Scale, wish.clone())).1,
        "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please apply your changes to the latest version and try again"
    );
    wish["metadata"] = json!({"name": "d"});
    wish["spec"]["replicas"] = json!(-1);
    assert_eq!(
        refused(server.put("deployments", Subresource::Scale, wish)).1,
        "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
    assert_eq!(
        refused(server.put("deployments", Subresource::Scale, deployment("d"))).1,
        "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion"
    );
    let patch = (PatchKind::Merge, json!({"spec": {"replicas": 3}}));
    server
        .patch("deployments", "d", Subresource::Scale, patch)
        .unwrap();
    assert_eq!(
        server.get("deployments", "d").unwrap()["spec"]["replicas"],
        3
    );
}

#[test]
fn a_put_creates_objects_of_kinds_that_allow_it() {
    let mut server = Server::new();
    let body = config_map("absent");
    assert_eq!(
        refused(server.put("configmaps", Subresource::Main, body)).0,
        404
    );
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l"}});
    let made = server
        .put("leases", Subresource::Main, lease.clone())
        .unwrap();
    assert_eq!(made["spec"], json!({}));
    assert_eq!(
        refused(server.put("leases", Subresource::Main, lease)).1,
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[test]
fn content_types_of_patches() {
    let server = Server::new();
    let mut resource = (*server.resource("deployments")).clone();
    let read = |kind: &str, resource: &Resource| PatchKind::from_content_type(kind, resource);
    let json = "application/json-patch+json; charset=utf-8";
    let strategic = "application/strategic-merge-patch+json";
    assert_eq!(read(json, &resource), Ok(PatchKind::Json));
    assert_eq!(read(strategic, &resource), Ok(PatchKind::Strategic));
    resource.built_in = false;
    let refused = read(strategic, &resource).unwrap_err();
    assert_eq!(refused.code, 415);
    assert!(refused.message.ends_with(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    ));
}

#[test]
fn services_get_addresses_and_keep_them() {
    let mut server = Server::new();
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}]}})
    };
    let one = server.create("services", service("one")).unwrap();
    let two = server.create("services", service("two")).unwrap();
    assert_eq!(one["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(two["spec"]["clusterIPs"], json!(["10.96.0.2"]));
    let before = server.registry.revision();
    assert_eq!(
        server
            .put("services", Subresource::Main, service("one"))
            .unwrap(),
        one
    );
    assert_eq!(server.registry.revision(), before);
}

#[test]
fn an_immutable_config_map_cannot_be_changed() {
    let mut server = Server::new();
    let mut body = config_map("c");
    body["immutable"] = json!(true);
    server.create("configmaps", body).unwrap();
    assert_eq!(
        refused(server.merge("configmaps", "c", json!({"data": {"a": "2"}}))).1,
        "ConfigMap \"c\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
    );
    server
        .merge(
            "configmaps",
            "c",
            json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .unwrap();
}
