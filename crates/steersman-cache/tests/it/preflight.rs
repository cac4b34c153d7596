//! A preflight names the rules that are missing, and the kinds that are not served.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use serde_json::json;
use steersman_api::Connection;
use steersman_apiserver::{ApiServer, Authorization, User};
use steersman_cache::{ByObject, Cache, CacheOptions};

use crate::world::Website;

fn world() -> (ApiServer, Connection, Cache) {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let connection = Connection::in_process(server.service_as(User::new("op")), "default");
    let options = CacheOptions::new()
        .by_object::<Secret>(ByObject::new().namespaces(["a", "b"]))
        .by_object::<Service>(ByObject::new().uncached());
    let cache = Cache::new(options).unwrap();
    cache.informer::<ConfigMap>().unwrap();
    cache.informer::<Deployment>().unwrap();
    (server, connection, cache)
}

/// Lets the operator do what a role says.
fn grant(server: &ApiServer, kind: &str, namespace: Option<&str>, rules: &serde_json::Value) {
    let metadata = match namespace {
        Some(namespace) => json!({"name": "op", "namespace": namespace}),
        None => json!({"name": "op"}),
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata, "rules": rules,
    });
    server.create(role).unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "op"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "op"}],
    });
    server.create(binding).unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_missing_verb_of_each_informer_is_named_and_nothing_else() {
    let (server, connection, cache) = world();
    let all = ["get", "list", "watch"];
    grant(
        &server,
        "ClusterRole",
        None,
        &json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": all},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
        ]),
    );
    let in_a = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": all}]);
    server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}))
        .unwrap();
    grant(&server, "Role", Some("a"), &in_a);

    let found = cache.preflight(&connection).await.unwrap();
    let missing: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        missing,
        [
            "get, list, watch secrets in namespace \"b\"",
            "get, watch deployments.apps",
        ]
    );
    assert!(!found.is_ready() && found.not_served.is_empty(), "{found}");
    let asked = server.requests();
    assert_eq!(asked.lists("configmaps") + asked.lists("secrets"), 0);
    assert_eq!(asked.count(|r| r.is_for("services")), 0, "it is not cached");

    // What it shows is what has to be pasted.
    let rules = found.rules("more");
    assert_eq!(rules.matches("kind: ClusterRole\n").count(), 1, "{rules}");
    assert_eq!(rules.matches("kind: Role\n").count(), 1, "{rules}");
    assert!(rules.contains("  verbs: [get, watch]\n"), "{rules}");
    assert!(found.to_string().ends_with(&found.rules("operator-cache")));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_named_with_its_definition() {
    let (server, _, cache) = world();
    let admin = Connection::in_process(server.service(), "default");
    cache.informer::<Website>().unwrap();
    cache.informer::<Pod>().unwrap();
    let found = cache.preflight(&admin).await.unwrap();
    assert!(found.missing.is_empty(), "{found}");
    let (kind, way_out) = found.not_served.first().unwrap();
    assert_eq!(found.not_served.len(), 1, "{found}");
    assert_eq!(kind.plural(), "websites");
    assert!(
        way_out
            .as_ref()
            .unwrap()
            .contains("websites.web.example.com"),
        "{found}"
    );
}
