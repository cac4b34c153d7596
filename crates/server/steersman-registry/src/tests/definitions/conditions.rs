//! Tests of the conditions of CRDs: about the acceptance of their names, and about API approval.

use super::*;

#[test]
fn a_definition_that_takes_taken_names_is_not_served() {
    let mut server = installed();
    let mut second = websites();
    second["metadata"]["name"] = json!("sites.example.com");
    second["spec"]["names"] = json!({"plural": "sites", "singular": "site", "kind": "Website",
        "listKind": "SiteList"});
    server.create("customresourcedefinitions", second).unwrap();
    let made = server
        .get("customresourcedefinitions", "sites.example.com")
        .unwrap();
    let first = &made["status"]["conditions"][0];
    assert_eq!(
        (&first["status"], &first["reason"]),
        (&json!("False"), &json!("KindConflict"))
    );
    assert_eq!(
        made["status"]["acceptedNames"],
        json!({"plural": "sites", "singular": "site", "kind": "", "listKind": "SiteList"})
    );
    assert!(
        server
            .registry
            .resource("example.com", "v1", "sites")
            .is_none()
    );
    server
        .delete("customresourcedefinitions", "websites.example.com")
        .unwrap();
    let sites = server.registry.resource("example.com", "v1", "sites");
    assert_eq!(sites.unwrap().kind, "Website");
}

#[test]
fn a_released_name_is_accepted_for_the_definition_that_waits() {
    let mut server = installed();
    let named = |plural: &str, kind: &str, short: Value| {
        let mut crd = websites();
        crd["metadata"]["name"] = json!(format!("{plural}.example.com"));
        crd["spec"]["names"] = json!({"plural": plural, "kind": kind, "shortNames": short});
        crd
    };
    let crd = named("sites", "Site", json!(["web", "website", "s"]));
    server.create("customresourcedefinitions", crd).unwrap();
    let name = "sites.example.com";
    let waiting = server.get("customresourcedefinitions", name).unwrap();
    assert_eq!(
        waiting["status"]["conditions"][0]["message"],
        "[\"web\" is already in use, \"website\" is already in use]"
    );
    let given_up = json!({"spec": {"names": {"shortNames": null, "singular": "one"}}});
    server
        .merge(
            "customresourcedefinitions", "websites.example.com", given_up,
        )
        .unwrap();
    let served = server.get("customresourcedefinitions", name).unwrap();
    assert_eq!(served["status"]["conditions"][1]["status"], "True");
    server.list("sites", &ListQuery::default()).unwrap();
}

/// A CRD in an API group of the Kubernetes project gets a condition about its API approval, which follows changes of
/// its annotation.
#[test]
fn a_definition_in_a_protected_group_shows_its_approval() {
    let mut server = installed();
    let definition = |group: &str, annotation: &str| {
        let mut crd = websites();
        crd["metadata"] = json!({"name": format!("websites.{group}"),
            "annotations": {"api-approved.kubernetes.io": annotation}});
        crd["spec"]["group"] = json!(group);
        crd
    };
    let conditions = |server: &Server, name: &str| -> Vec<Value> {
        let crd = server.get("customresourcedefinitions", name).unwrap();
        let conditions = crd["status"]["conditions"].as_array().unwrap().iter();
        let conformant = conditions
            .skip(2)
            .map(|one| json!([one["type"], one["status"], one["reason"], one["message"]]));
        conformant.collect()
    };
    let condition = "KubernetesAPIApprovalPolicyConformant";
    let (given, not) = ("https://example.com/pull/1", "unapproved, a \"trial\"");
    let crd = definition("x.k8s.io", given);
    server.create("customresourcedefinitions", crd).unwrap();
    let name = "websites.x.k8s.io";
    let message = format!("approved in {given}");
    assert_eq!(
        conditions(&server, name),
        [json!([condition, "True", "ApprovedAnnotation", message])]
    );
    let patch = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": not}}});
    server
        .merge("customresourcedefinitions", name, patch)
        .unwrap();
    let message = "not approved: \"unapproved, a \\\"trial\\\"\"";
    assert_eq!(
        conditions(&server, name),
        [json!([condition, "False", "UnapprovedAnnotation", message])]
    );
    let crd = definition("open.example.com", given);
    server.create("customresourcedefinitions", crd).unwrap();
    assert!(conditions(&server, "websites.open.example.com").is_empty());
}
