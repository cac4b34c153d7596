//! Tests of the memory use of CRDs: when their schemas are compiled, and which CRDs stay decoded.

use steersman_schema::resource::StorageKey;

use super::*;

fn compiled(server: &Server) -> Vec<bool> {
    let all = server.registry.resources().iter();
    let schemas = all.filter_map(|one| one.schema.as_ref());
    schemas.map(|schema| schema.is_compiled()).collect()
}

/// SRV-CRD-1: the schema of a version is compiled only when the first object of this version is written.
#[test]
fn a_schema_is_compiled_when_the_first_object_of_its_version_is_written() {
    let mut server = installed();
    server.registry.install_crd(websites(), server.now).unwrap();
    assert_eq!(compiled(&server), [false, false]);
    server.create("websites", website("a")).unwrap();
    assert_eq!(compiled(&server), [true, false]);
}

/// SRV-CRD-1: versions with equal schemas share one compiled schema.
#[test]
fn schemas_share_the_bytes_of_the_definition_and_equal_ones_are_one() {
    let mut server = Server::new();
    let mut crd = websites();
    crd["spec"]["versions"][1]["schema"] = crd["spec"]["versions"][0]["schema"].clone();
    server
        .registry
        .install_crd(crd.clone(), server.now)
        .unwrap();
    // After a write of the CRD's status, its schemas refer to the bytes of the new revision, so that the bytes of the
    // old revision can be freed.
    let storage = StorageKey::new("apiextensions.k8s.io", "customresourcedefinitions");
    let stored = server
        .registry
        .store
        .get(&storage, "", "websites.example.com");
    let bytes = stored.unwrap().bytes().as_ptr_range();
    let schemas: Vec<_> = server
        .registry
        .resources()
        .iter()
        .filter_map(|one| one.schema.clone())
        .collect();
    assert_eq!(schemas.len(), 2);
    assert!(Arc::ptr_eq(&schemas[0], &schemas[1]));
    assert!(bytes.contains(&schemas[0].json().as_ptr()));
    assert_eq!(
        schemas[0].decode(),
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    );
}

/// SRV-STORE-7: the check for conflicts with the names of other CRDs does not decode these CRDs.
#[test]
fn a_new_definition_decodes_no_other_definition() {
    let mut server = Server::new();
    let mut first = websites();
    first["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] =
        json!("x".repeat(1 << 17));
    server.registry.install_crd(first, server.now).unwrap();
    server.registry.take_after_writes().finish();
    server.registry.take_after_writes().finish();
    let storage = StorageKey::new("apiextensions.k8s.io", "customresourcedefinitions");
    assert_eq!(server.registry.store().decoded(&storage), 0);
    let mut crd = websites();
    crd["metadata"]["name"] = json!("sites.example.com");
    crd["spec"]["names"] = json!({"plural": "sites", "kind": "Site"});
    server.create("customresourcedefinitions", crd).unwrap();
    server
        .delete("customresourcedefinitions", "sites.example.com")
        .unwrap();
    let old = server
        .registry
        .store
        .get(&storage, "", "websites.example.com");
    assert!(!old.unwrap().is_decoded());
}
