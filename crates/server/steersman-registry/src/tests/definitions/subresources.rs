//! Tests of the status and scale subresources of CRDs and of custom resources.

use super::*;

#[test]
fn a_crd_status_lists_the_stored_versions() {
    let mut server = installed();
    let name = "websites.example.com";
    let mut crd = server.get("customresourcedefinitions", name).unwrap();
    for (message, kept) in [
        (json!(["v1beta1"]), json!(["v1beta1"])),
        (json!([]), json!(["v1"])),
    ] {
        crd["status"]["storedVersions"] = message;
        crd = server
            .put("customresourcedefinitions", Subresource::Status, crd)
            .unwrap();
        assert_eq!(crd["status"]["storedVersions"], kept);
    }
}

#[test]
fn a_scale_of_another_kind_or_version_is_refused() {
    let mut server = installed();
    server.create("websites", website("w")).unwrap();
    server.create("deployments", deployment("d")).unwrap();
    for (plural, name, version, kind, why) in [
        (
            "websites",
            "w",
            "autoscaling/v2",
            "Scale",
            "Scale in version \"v2\" cannot be handled as a Scale: no kind \"Scale\" is registered for version \"autoscaling/v2\" in scheme \"k8s.io/client-go/scale/util.go:132\"",
        ),
        (
            "deployments",
            "d",
            "autoscaling/v2",
            "Scale",
            "Scale in version \"v2\" cannot be handled as a Scale: no kind \"Scale\" is registered for version \"autoscaling/v2\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            "deployments",
            "d",
            "apps/v1",
            "Deployment",
            "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion",
        ),
    ] {
        let wish = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        let (_, message) = refused(server.put(plural, Subresource::Scale, wish));
        assert_eq!(message, why);
    }
    let wish = json!({"metadata": {"name": "w"}, "spec": {"replicas": true}});
    assert_eq!(
        refused(server.put("websites", Subresource::Scale, wish)).1,
        "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal bool into Go struct field ScaleSpec.spec.replicas of type int32"
    );
}
