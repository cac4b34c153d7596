//! Reading custom resource definitions.

use super::*;

fn websites() -> Value {
    json!({"metadata": {"name": "websites.example.com"}, "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"plural": "websites", "kind": "Website", "shortNames": ["web"]},
    "versions": [
        {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [
                {"name": "Ready", "type": "string", "jsonPath": ".status.ready"}],
            "selectableFields": [{"jsonPath": ".spec.image"}]},
        {"name": "v2", "served": false, "storage": false,
            "schema": {"openAPIV3Schema": {"type": "object"}}},
    ]}})
}

#[test]
fn a_definition_serves_its_versions() {
    let mut crd = websites();
    apply_defaults(&mut crd);
    assert!(validate(&crd, None).is_empty());
    assert_eq!(crd["spec"]["names"]["singular"], "website");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    let resources = resources(&crd, 7);
    let served: Vec<_> = resources.iter().map(|r| r.version.as_str()).collect();
    assert_eq!(served, ["v1", "v1beta1"]);
    assert_eq!(resources[0].storage, resources[1].storage);
    assert_eq!(resources[1].storage_version, "v1");
    assert_eq!(resources[0].fields[0].label, "spec.image");
    assert_eq!(resources[0].columns[0].json_path, ".status.ready");
    assert_eq!(
        resources[0].scale.as_ref().unwrap().spec_replicas,
        ["spec", "replicas"]
    );
    assert_eq!(
        resources[1].deprecation_warning.as_deref(),
        Some("example.com/v1beta1 Website is deprecated; use example.com/v1 Website")
    );
}

#[test]
fn a_broken_definition_is_told_everything() {
    let mut crd = websites();
    crd["metadata"]["name"] = json!("other");
    crd["spec"]["versions"][0]["storage"] = json!(true);
    crd["spec"]["versions"][1]["schema"] = json!({});
    crd["spec"]["scope"] = json!("");
    apply_defaults(&mut crd);
    let fields: Vec<_> = validate(&crd, None).into_iter().map(|e| e.field).collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "spec.scope",
            "spec.versions[1].schema.openAPIV3Schema",
            "spec.versions"
        ]
    );
}

#[test]
fn what_is_established_keeps_its_identity() {
    let mut old = websites();
    apply_defaults(&mut old);
    accept(&mut old, "2026-01-01T00:00:00Z");
    assert!(is_established(&old));
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][1]["name"] = json!("v9");
    let fields: Vec<_> = validate(&new, Some(&old))
        .into_iter()
        .map(|e| e.field)
        .collect();
    assert_eq!(fields, ["status.storedVersions[0]", "spec.scope"]);
}

#[test]
fn versions_sort_by_preference() {
    let mut all = [
        "foo", "v1alpha1", "v10", "v2", "v11beta2", "v1beta1", "v1", "v1alpha2",
    ];
    all.sort_by(|a, b| compare_versions(a, b));
    assert_eq!(
        all,
        [
            "v10", "v2", "v1", "v11beta2", "v1beta1", "v1alpha2", "v1alpha1", "foo"
        ]
    );
}
