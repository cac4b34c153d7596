//! Tests of the version in which a custom resource is stored, and of `status.storedVersions`.

use steersman_auth::User;

use super::*;

pub(crate) const DEFINITION: &str = "websites.example.com";

/// Returns the CRD of Websites with `v1beta1` in place of `v1` as its storage version.
pub(crate) fn websites_stored_as_beta() -> Value {
    let mut crd = websites();
    crd["spec"]["versions"][0]["storage"] = json!(false);
    crd["spec"]["versions"][1]["storage"] = json!(true);
    crd
}

/// Returns the `apiVersion` in which the Website with this name is stored.
pub(crate) fn stored_version(server: &Server, name: &str) -> String {
    let storage = server.resource("websites").storage.clone();
    let stored = server
        .registry
        .store()
        .get(&storage, "default", name)
        .unwrap();
    stored.api_version().to_owned()
}

/// Writes a Website without a change. `way` is the name of the Website and also the kind of write, such as `put`.
fn write_unchanged(server: &mut Server, way: &str) -> Value {
    let shown = server.get("websites", way).unwrap();
    let merge = (PatchKind::Merge, json!({}));
    let (status, scale) = (Subresource::Status, Subresource::Scale);
    let written = match way {
        "put" => server.put("websites", Subresource::Main, shown),
        "put-status" => server.put("websites", status, shown),
        "put-scale" => {
            let shown = server.get_part("websites", way, scale).unwrap();
            server.put("websites", scale, shown)
        }
        "json-patch" => {
            let patch = (PatchKind::Json, json!([]));
            server.patch("websites", way, Subresource::Main, patch)
        }
        "merge-patch" => server.patch("websites", way, Subresource::Main, merge),
        "merge-patch-status" => server.patch("websites", way, status, merge),
        "merge-patch-scale" => server.patch("websites", way, scale, merge),
        "apply" => {
            let metadata = &shown["metadata"];
            let body = json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {
                "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}});
            apply(server, way, &body)
        }
        _ => panic!("no such way to write: {way}"),
    };
    written.unwrap()
}

fn apply(server: &mut Server, name: &str, body: &Value) -> Done<Value> {
    let resource = server.resource("websites");
    let options = WriteOptions {
        field_manager: Some("storage-version-migrator-controller".to_owned()),
        user: Arc::new(User::admin()),
        ..WriteOptions::default()
    };
    let (target, body) = (
        ObjectTarget::object(&resource, Some("default"), name),
        body.to_string(),
    );
    let written = server.registry.patch(
        target,
        PatchKind::Apply,
        body.as_bytes(),
        &options,
        server.now,
    )?;
    Ok(written.object.value().clone())
}

/// SRV-REG-4: a write without a change is stored if the object is in an old storage version, because as in a
/// kube-apiserver the version is part of the comparison.
#[test]
fn a_write_without_a_change_stores_an_object_of_an_old_storage_version_anew() {
    let ways = [
        "put", "put-status", "put-scale", "json-patch", "merge-patch", "merge-patch-status",
        "merge-patch-scale", "apply",
    ];
    let mut server = installed();
    for way in ways {
        server.create("websites", website(way)).unwrap();
        let before = server.registry.revision();
        write_unchanged(&mut server, way);
        assert_eq!(
            server.registry.revision(),
            before,
            "{way}: the same version"
        );
    }
    let crd = websites_stored_as_beta();
    server.registry.install_crd(crd, server.now).unwrap();
    let options = ListQuery::default();
    let mut cursor = server.watch("websites", &options).unwrap();
    server.poll(&mut cursor);
    for way in ways {
        let before = server.get("websites", way).unwrap();
        assert_eq!(stored_version(&server, way), "example.com/v1", "{way}");
        write_unchanged(&mut server, way);
        assert_eq!(stored_version(&server, way), "example.com/v1beta1", "{way}");
        assert_eq!(server.poll(&mut cursor), [format!("MODIFIED {way}")]);
        let mut after = server.get("websites", way).unwrap();
        assert!(version(&after) > version(&before), "{way}");
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        assert_eq!(after, before, "{way}: only the resource version differs");
        let revision = server.registry.revision();
        write_unchanged(&mut server, way);
        assert_eq!(
            server.registry.revision(),
            revision,
            "{way}: a second write"
        );
    }
}

#[test]
fn a_dry_run_stores_no_object_anew() {
    let mut server = installed();
    server.create("websites", website("w")).unwrap();
    let crd = websites_stored_as_beta();
    server.registry.install_crd(crd, server.now).unwrap();
    let (resource, before) = (server.resource("websites"), server.registry.revision());
    let options = WriteOptions {
        dry_run: vec!["All".to_owned()],
        ..WriteOptions::default()
    };
    let target = ObjectTarget::object(&resource, Some("default"), "w");
    let now = server.now;
    let patched = server
        .registry
        .patch(target, PatchKind::Merge, b"{}", &options, now);
    patched.unwrap();
    assert_eq!(server.registry.revision(), before);
    assert_eq!(stored_version(&server, "w"), "example.com/v1");
}

/// SRV-REG-4: writes of the server itself, such as the start of a deletion, also store the object in the storage
/// version.
#[test]
fn a_deletion_that_waits_stores_the_object_in_the_storage_version() {
    let mut server = installed();
    let owner = server.create("websites", website("owner")).unwrap();
    let mut held = website("held");
    held["metadata"]["finalizers"] = json!(["g.example.com/hold"]);
    server.create("websites", held).unwrap();
    let mut owned = website("owned");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1",
        "kind": "Website", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    server.create("websites", owned).unwrap();
    let crd = websites_stored_as_beta();
    server.registry.install_crd(crd, server.now).unwrap();
    server.delete("websites", "held").unwrap();
    assert_eq!(stored_version(&server, "held"), "example.com/v1beta1");
    let orphan = json!({"propagationPolicy": "Orphan"});
    server.delete_with("websites", "owner", orphan).unwrap();
    assert_eq!(stored_version(&server, "owned"), "example.com/v1beta1");
}

#[test]
fn the_stored_version_is_part_of_a_snapshot() {
    let mut server = installed();
    server.create("websites", website("w")).unwrap();
    let crd = websites_stored_as_beta();
    server.registry.install_crd(crd, server.now).unwrap();
    let mut text = Vec::new();
    server.registry.snapshot().write(&mut text).unwrap();
    let mut again = Server::new();
    again.registry.restore(&Snapshot::read(&text).unwrap());
    assert_eq!(stored_version(&again, "w"), "example.com/v1");
    let before = again.get("websites", "w").unwrap();
    let written = again.merge("websites", "w", json!({})).unwrap();
    assert!(version(&written) > version(&before));
    assert_eq!(stored_version(&again, "w"), "example.com/v1beta1");
}

#[test]
fn a_version_is_dropped_only_after_the_status_forgets_it() {
    let mut server = installed();
    let crd = websites_stored_as_beta();
    server.registry.install_crd(crd, server.now).unwrap();
    let mut crd = server.get("customresourcedefinitions", DEFINITION).unwrap();
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    let mut dropped = crd.clone();
    let versions = dropped["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|one| one["name"] != "v1");
    let refusal = server.put(
        "customresourcedefinitions",
        Subresource::Main,
        dropped.clone(),
    );
    assert_eq!(
        refused(refusal),
        (
            422,
            "CustomResourceDefinition.apiextensions.k8s.io \"websites.example.com\" is invalid: status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
                .to_owned()
        )
    );
    crd["status"]["storedVersions"] = json!(["v1beta1"]);
    let written = server
        .put("customresourcedefinitions", Subresource::Status, crd)
        .unwrap();
    assert_eq!(written["status"]["storedVersions"], json!(["v1beta1"]));
    dropped["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"].clone();
    server
        .put("customresourcedefinitions", Subresource::Main, dropped)
        .unwrap();
    assert!(
        server
            .registry
            .resource("example.com", "v1", "websites")
            .is_none()
    );
}
