//! Tests of the default roles and bindings (bootstrap policy) at the first start of a server and at later starts.

use serde_json::{Value, json};
use steersman_auth::Authorization;

use super::{PatchKind, Server, Subresource};
use crate::{ObjectTarget, RegistryOptions};

fn server() -> Server {
    Server::with(RegistryOptions {
        authorization: Authorization::Rbac,
        ..RegistryOptions::default()
    })
}

fn restart(server: &mut Server) {
    server.registry.bootstrap(server.now);
}

fn get_in(server: &Server, plural: &str, namespace: &str, name: &str) -> Value {
    let resource = server.resource(plural);
    let target = ObjectTarget::object(&resource, Some(namespace), name);
    let object = server.registry.get(target, None);
    object.unwrap().value().clone()
}

#[test]
fn a_start_writes_the_policy_of_the_cluster_and_of_its_namespaces() {
    let server = server();
    let role = server
        .get("clusterroles", "system:controller:job-controller")
        .unwrap();
    assert_eq!(role["kind"], "ClusterRole");
    let managed = &role["metadata"]["managedFields"][0];
    assert_eq!(managed["manager"], "kube-apiserver");
    assert_eq!(managed["fieldsV1"]["f:rules"], json!({}));
    let name = "system:controller:bootstrap-signer";
    let signer = get_in(&server, "rolebindings", "kube-public", name);
    assert_eq!(signer["apiVersion"], "rbac.authorization.k8s.io/v1");
    assert_eq!(signer["metadata"]["namespace"], "kube-public");
    assert_eq!(
        signer["subjects"],
        json!([{"kind": "ServiceAccount", "name": "bootstrap-signer", "namespace": "kube-system"}])
    );
}

/// AUTH-11: a start adds missing rules and subjects to default roles and bindings, and removes none.
#[test]
fn a_later_start_adds_what_the_policy_lacks_and_changes_nothing_else() {
    let mut server = server();
    let revision = server.registry.revision();
    restart(&mut server);
    assert_eq!(server.registry.revision(), revision);

    let binding = "system:controller:job-controller";
    server.delete("clusterroles", "system:basic-user").unwrap();
    server.delete("clusterrolebindings", binding).unwrap();
    let other = json!({
        "metadata": {"name": binding},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    });
    server.create("clusterrolebindings", other).unwrap();
    let own = json!([{"verbs": ["get"], "nonResourceURLs": ["/own"]}]);
    let strip = json!({"rules": own});
    server
        .merge("clusterroles", "system:discovery", strip)
        .unwrap();
    let keep = json!({"rules": own,
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}});
    server
        .merge("clusterroles", "system:public-info-viewer", keep)
        .unwrap();
    let gathers = json!([{"op": "add", "path": "/aggregationRule/clusterRoleSelectors/-",
        "value": {"matchLabels": {"own": "true"}}}]);
    server
        .patch(
            "clusterroles",
            "view",
            Subresource::Main,
            (PatchKind::Json, gathers),
        )
        .unwrap();
    restart(&mut server);

    assert!(server.get("clusterroles", "system:basic-user").is_ok());
    let bound = server.get("clusterrolebindings", binding).unwrap();
    assert_eq!(bound["roleRef"]["name"], binding);
    assert_eq!(bound["subjects"][0]["name"], "job-controller");
    let role = server.get("clusterroles", "system:discovery").unwrap();
    let rules = role["rules"].as_array().unwrap();
    assert_eq!(rules[0], own[0]);
    assert_eq!(rules.len(), 12, "one rule for each path that was missing");
    let owners = role["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        owners
            .iter()
            .any(|owner| owner["manager"] == "kube-apiserver"
                && owner["fieldsV1"].get("f:rules").is_some())
    );
    let role = server
        .get("clusterroles", "system:public-info-viewer")
        .unwrap();
    assert_eq!(role["rules"], own);
    let view = server.get("clusterroles", "view").unwrap();
    let selectors = view["aggregationRule"]["clusterRoleSelectors"].as_array();
    assert_eq!(selectors.unwrap().len(), 2);

    let revision = server.registry.revision();
    restart(&mut server);
    assert_eq!(server.registry.revision(), revision);
}

#[test]
fn view_aggregates_the_roles_with_its_label_and_edit_aggregates_view() {
    let server = server();
    let rules = |name: &str| server.get("clusterroles", name).unwrap()["rules"].clone();
    let view = rules("view");
    assert_eq!(view, rules("system:aggregate-to-view"));
    let (edit, admin) = (rules("edit"), rules("admin"));
    let has_all = |all: &Value, some: &Value| {
        let some = some.as_array().unwrap().iter();
        some.clone().count() > 0
            && some
                .clone()
                .all(|rule| all.as_array().unwrap().contains(rule))
    };
    assert!(has_all(&edit, &view) && has_all(&edit, &rules("system:aggregate-to-edit")));
    assert!(has_all(&admin, &edit) && has_all(&admin, &rules("system:aggregate-to-admin")));
    assert!(!has_all(&edit, &admin) && !has_all(&view, &edit));
}

/// SRV-STORE-7: after a start, the default roles and bindings are in memory as bytes only, and not decoded.
#[test]
fn the_policy_is_not_kept_decoded() {
    let server = server();
    for plural in [
        "clusterroles", "clusterrolebindings", "roles", "rolebindings",
    ] {
        let storage = &server.resource(plural).storage;
        assert!(
            server.registry.store().list(storage, None).count() >= 7,
            "{plural}"
        );
        assert_eq!(server.registry.store().decoded(storage), 0, "{plural}");
    }
}
