//! Tests of CRDs and custom resources: installation, validation, versions, removal.

use super::*;

mod applies;
mod conditions;
mod editions;
mod repeated_applies;
mod schema_reads;
mod schemas;
pub(super) mod storage_versions;
mod subresources;

pub(super) fn websites() -> Value {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["image"], "properties": {
            "image": {"type": "string"},
            "replicas": {"type": "integer", "minimum": 0, "default": 1}}},
        "status": {"type": "object", "properties": {
            "ready": {"type": "integer", "minimum": 0}}}}});
    let mut other = schema.clone();
    other["properties"]["spec"]["properties"]["extra"] = json!({"type": "string"});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "websites.example.com"}, "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"plural": "websites", "kind": "Website", "shortNames": ["web"]},
    "versions": [
        {"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": ".spec.image"}],
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.ready"}}},
        {"name": "v1beta1", "served": true, "storage": false,
            "schema": {"openAPIV3Schema": other}},
    ]}})
}

pub(super) fn website(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": name},
        "spec": {"image": "img:1"}})
}

fn installed() -> Server {
    let mut server = Server::new();
    server.registry.install_crd(websites(), server.now).unwrap();
    server
}

#[test]
fn a_definition_is_served_at_once() {
    let mut server = Server::new();
    let before = server.registry.catalogue_version();
    let made = server
        .create("customresourcedefinitions", websites())
        .unwrap();
    // The response of the create shows the CRD as it was before its names were accepted.
    assert_eq!(made["status"]["conditions"], Value::Null);
    assert_eq!(made["status"]["acceptedNames"]["plural"], "");
    let made = server
        .get("customresourcedefinitions", "websites.example.com")
        .unwrap();
    assert!(server.registry.catalogue_version() > before);
    let conditions = made["status"]["conditions"].as_array().unwrap();
    let holds: Vec<_> = conditions
        .iter()
        .map(|one| {
            (
                one["type"].as_str().unwrap(),
                one["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(holds, [("NamesAccepted", "True"), ("Established", "True")]);
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "WebsiteList");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    let made = server.create("websites", website("one")).unwrap();
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["replicas"], 1);
    let scale = server
        .get_part("websites", "one", Subresource::Scale)
        .unwrap();
    assert_eq!(scale["spec"]["replicas"], 1);
    let image = ListQuery {
        field_selector: Some("spec.image=img:1".to_owned()),
        ..ListQuery::default()
    };
    assert_eq!(server.names("websites", &image), ["one"]);
    let other = ListQuery {
        field_selector: Some("spec.b=1".to_owned()),
        ..ListQuery::default()
    };
    assert_eq!(
        refused(server.list("websites", &other)).1,
        "field label not supported: spec.b"
    );
}

#[test]
fn custom_resources_are_validated() {
    let mut server = installed();
    let mut body = website("x");
    body["spec"]["replicas"] = json!("three");
    assert_eq!(
        refused(server.create("websites", body)),
        (
            422,
            "Website.example.com \"x\" is invalid: [spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\", .spec.replicas: Invalid value: 0: .spec.replicas accessor error: three is of the type string, expected int64]"
                .to_owned()
        )
    );
    for (field, value, message) in [
        (
            "apiVersion",
            "other.example.com/v1",
            "the API version in the data (other.example.com/v1) does not match the expected API version (example.com/v1)",
        ),
        (
            "kind",
            "Widget",
            "Widget.example.com \"x\" is invalid: kind: Invalid value: \"Widget\": must be Website",
        ),
    ] {
        let mut body = website("x");
        body[field] = json!(value);
        assert_eq!(refused(server.create("websites", body)).1, message);
    }
    let made = server.create("websites", website("x")).unwrap();
    let mut put = website("x");
    assert_eq!(
        refused(server.put("websites", Subresource::Main, put.clone())).1,
        "websites.example.com \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    put["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    put["status"] = json!({"ready": -1});
    assert_eq!(
        refused(server.put("websites", Subresource::Status, put.clone())).1,
        "Website.example.com \"x\" is invalid: [status.ready: Invalid value: -1: ready in body should be greater than or equal to 0, .status.ready: Invalid value: -1: should be a non-negative integer]"
    );
    put["status"] = json!({"ready": 1});
    put["spec"] = json!({"image": 7});
    let done = server.put("websites", Subresource::Status, put).unwrap();
    assert_eq!(
        (&done["status"]["ready"], &done["spec"]["image"]),
        (&json!(1), &json!("img:1"))
    );
    assert_eq!(done["metadata"]["generation"], 1);
}

/// A patch of the status of a custom resource may have any uid in its metadata, because only its status counts. In a
/// patch of a built-in object's status, and in every PUT, the uid must be that of the stored object.
#[test]
fn a_uid_does_not_guard_a_patch_of_a_custom_status() {
    let mut server = installed();
    let made = server.create("websites", website("w")).unwrap();
    let merge = |patch: Value| (PatchKind::Merge, patch);
    let patch = json!({"metadata": {"uid": "other"}, "status": {"ready": 1}});
    let done = server
        .patch("websites", "w", Subresource::Status, merge(patch.clone()))
        .unwrap();
    assert_eq!(done["status"]["ready"], 1);
    assert_eq!(done["metadata"]["uid"], made["metadata"]["uid"]);
    // A patch of the status is refused for another resource version, and if a JSON patch has a `test` of another uid.
    let stale = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
        "status": {"ready": 2}});
    let refusal = server.patch("websites", "w", Subresource::Status, merge(stale));
    assert_eq!(refused(refusal).0, 409);
    let tested = json!([{"op": "test", "path": "/metadata/uid", "value": "other"},
        {"op": "add", "path": "/status/ready", "value": 2}]);
    let tested = (PatchKind::Json, tested);
    let refusal = server.patch("websites", "w", Subresource::Status, tested);
    assert_eq!(refused(refusal).0, 422);
    assert_eq!(refused(server.merge("websites", "w", patch)).0, 422);
    let mut body = done;
    body["metadata"]["uid"] = json!("other");
    assert_eq!(
        refused(server.put("websites", Subresource::Status, body)).0,
        409
    );
    server.create("deployments", deployment("d")).unwrap();
    let patch = json!({"metadata": {"uid": "other"}, "status": {"replicas": 1}});
    let refusal = server.patch("deployments", "d", Subresource::Status, merge(patch));
    let (code, message) = refused(refusal);
    assert_eq!(code, 422);
    assert!(message.contains("metadata.uid: Invalid value: \"other\": field is immutable"));
}

#[test]
fn unknown_fields_are_pruned_and_reported() {
    let mut server = installed();
    let resource = server.resource("websites");
    let mut body = website("x");
    body["spec"]["b"] = json!(1);
    body["top"] = json!(1);
    body["metadata"]["bogus"] = json!(1);
    let now = server.now;
    let create = |server: &mut Server, validation: Option<&str>| {
        let field_validation = validation.map(str::to_owned);
        let options = WriteOptions {
            field_validation,
            dry_run: vec!["All".to_owned()],
            ..WriteOptions::default()
        };
        server.registry.create(
            ObjectTarget::collection(&resource, Some("default")),
            body.clone(),
            &options,
            now,
        )
    };
    let made = create(&mut server, None).unwrap();
    assert_eq!(
        server.registry.take_warnings().1,
        [
            "unknown field \"metadata.bogus\"",
            "unknown field \"spec.b\"",
            "unknown field \"top\""
        ]
    );
    assert_eq!(
        made.object.value()["spec"],
        json!({"image": "img:1", "replicas": 1})
    );
    create(&mut server, Some("Ignore")).unwrap();
    assert!(server.registry.take_warnings().1.is_empty());
    assert_eq!(
        refused(create(&mut server, Some("Strict"))),
        (
            400,
            "Website in version \"v1\" cannot be handled as a Website: strict decoding error: unknown field \"metadata.bogus\", unknown field \"spec.b\", unknown field \"top\""
                .to_owned()
        )
    );
}

#[test]
fn versions_share_their_objects() {
    let mut server = installed();
    let beta = server
        .registry
        .resource("example.com", "v1beta1", "websites")
        .unwrap();
    let mut body = website("x");
    body["apiVersion"] = json!("example.com/v1beta1");
    body["spec"]["extra"] = json!("lost");
    let (options, now) = (WriteOptions::default(), server.now);
    server
        .registry
        .create(
            ObjectTarget::collection(&beta, Some("default")),
            body,
            &options,
            now,
        )
        .unwrap();
    let stored = server.get("websites", "x").unwrap();
    assert_eq!(stored["apiVersion"], "example.com/v1");
    assert!(stored["spec"].get("extra").is_none());
    let shown = server
        .registry
        .get(
            ObjectTarget::object(&beta, Some("default"), "x").part(Subresource::Main),
            None,
        )
        .unwrap();
    assert_eq!(shown.value()["apiVersion"], "example.com/v1beta1");
    assert_eq!(shown.value()["metadata"], stored["metadata"]);
}

#[test]
fn a_definition_may_change_but_not_its_identity() {
    let mut server = installed();
    server.create("websites", website("x")).unwrap();
    let scope = json!({"spec": {"scope": "Cluster"}});
    assert_eq!(
        refused(server.merge("customresourcedefinitions", "websites.example.com", scope)).1,
        "CustomResourceDefinition.apiextensions.k8s.io \"websites.example.com\" is invalid: spec.scope: Invalid value: \"Cluster\": field is immutable"
    );
    let mut changed = websites();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["title"] = json!({"type": "string"});
    let done = server.registry.install_crd(changed, server.now).unwrap();
    assert_eq!(done.object.value()["metadata"]["generation"], 2);
    assert!(!done.created);
    let titled = server
        .merge("websites", "x", json!({"spec": {"title": "t"}}))
        .unwrap();
    assert_eq!(titled["spec"]["title"], "t");
    assert_eq!(
        refused(server.create(
            "customresourcedefinitions",
            json!({"metadata": {"name": "x"}})
        ))
        .0,
        422
    );
}

#[test]
fn a_stricter_schema_tolerates_unchanged_stored_values() {
    let mut server = installed();
    server.create("websites", website("x")).unwrap();
    let mut stricter = websites();
    stricter["spec"]["names"]["singular"] = Value::Null;
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["image"]["maxLength"] = json!(3);
    server.registry.install_crd(stricter, server.now).unwrap();
    server
        .merge("websites", "x", json!({"spec": {"replicas": 2}}))
        .unwrap();
    assert_eq!(
        refused(server.merge("websites", "x", json!({"spec": {"image": "img:2"}}))).1,
        "Website.example.com \"x\" is invalid: spec.image: Too long: may not be more than 3 bytes"
    );
}

#[test]
fn a_deleted_definition_takes_its_objects_and_ends_their_watches() {
    let mut server = installed();
    server.create("websites", website("x")).unwrap();
    let mut held = website("held");
    held["metadata"]["finalizers"] = json!(["g.example.com/hold"]);
    server.create("websites", held).unwrap();
    let mut cursor = server.watch("websites", &ListQuery::default()).unwrap();
    assert_eq!(server.poll(&mut cursor), ["ADDED held", "ADDED x"]);
    let name = "websites.example.com";
    let Deleted::Held(marked) = server.delete("customresourcedefinitions", name).unwrap() else {
        panic!("a definition is marked first");
    };
    let finalizers = &marked.value()["metadata"]["finalizers"];
    assert_eq!(
        finalizers,
        &json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert_eq!(server.poll(&mut cursor), ["MODIFIED held", "DELETED x"]);
    assert!(!cursor.is_over());
    let kept = server.get("customresourcedefinitions", name).unwrap();
    let condition = &kept["status"]["conditions"][2];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("Terminating"), &json!("InstanceDeletionInProgress"))
    );
    // A second delete of a CRD that is already being deleted changes nothing.
    server.delete("customresourcedefinitions", name).unwrap();
    assert_eq!(server.get("customresourcedefinitions", name).unwrap(), kept);
    assert_eq!(
        refused(server.create("websites", website("late"))),
        (
            405,
            "create not allowed while custom resource definition is terminating".to_owned()
        )
    );
    server
        .merge(
            "websites",
            "held",
            json!({"metadata": {"finalizers": null}}),
        )
        .unwrap();
    assert_eq!(server.poll(&mut cursor), ["DELETED held"]);
    assert!(cursor.is_over());
    assert!(server.get("customresourcedefinitions", name).is_err());
    assert!(
        server
            .registry
            .resource("example.com", "v1", "websites")
            .is_none()
    );
    server.registry.install_crd(websites(), server.now).unwrap();
    assert!(server.names("websites", &ListQuery::default()).is_empty());
    server.poll(&mut cursor);
    assert!(cursor.is_over());
}

#[test]
fn dependents_of_a_removed_definitions_objects_are_collected() {
    let mut server = installed();
    let owner = server.create("websites", website("w")).unwrap();
    let mut body = config_map("child");
    body["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1",
        "kind": "Website", "name": "w", "uid": owner["metadata"]["uid"]}]);
    server.create("configmaps", body).unwrap();
    server
        .delete("customresourcedefinitions", "websites.example.com")
        .unwrap();
    assert_eq!(refused(server.get("configmaps", "child")).0, 404);
}

#[test]
fn objects_stored_in_another_version_are_converted() {
    let mut server = installed();
    server.create("websites", website("x")).unwrap();
    let mut crd = websites();
    crd["spec"]["versions"][0]["storage"] = json!(false);
    crd["spec"]["versions"][1]["storage"] = json!(true);
    crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"] =
        json!({"type": "string", "default": "d"});
    server.registry.install_crd(crd, server.now).unwrap();
    let name = "websites.example.com";
    let crd = server.get("customresourcedefinitions", name).unwrap();
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    let shown = server.get("websites", "x").unwrap();
    assert_eq!(shown["apiVersion"], "example.com/v1");
    let beta = server
        .registry
        .resource("example.com", "v1beta1", "websites")
        .unwrap();
    let target = ObjectTarget::object(&beta, Some("default"), "x");
    let other = server.registry.get(target, None).unwrap();
    assert_eq!(other.value()["apiVersion"], "example.com/v1beta1");
    // A write without a change is stored if it changes the version in which the object is stored.
    let before = version(&shown);
    let written = server.put("websites", Subresource::Main, shown).unwrap();
    assert!(version(&written) > before);
    assert_eq!(written["apiVersion"], "example.com/v1");
}

/// Go writes a number without a fraction, such as `1.0`, as `1`, and so does the server.
#[test]
fn whole_floats_are_written_as_integers() {
    let mut server = installed();
    let mut body = website("a");
    body["spec"]["replicas"] = json!(3.0);
    assert_eq!(body["spec"]["replicas"].to_string(), "3.0");
    let made = server.create("websites", body).unwrap();
    assert_eq!(made["spec"]["replicas"].to_string(), "3");
    let found = server.get("websites", "a").unwrap();
    assert_eq!(found["spec"]["replicas"].to_string(), "3");
}
