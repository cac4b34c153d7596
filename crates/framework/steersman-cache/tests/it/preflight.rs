//! The preflight reports missing rules and kinds that are not served.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::{ApiServer, Authorization, User};
use steersman_cache::{ByObject, Cache, CacheOptions, ListOptions};
use steersman_object::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::world::Website;

fn world() -> (ApiServer, ClientConfig, Cache) {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let client_config = ClientConfig::in_process(server.service_as(User::new("op")), "default");
    let options = CacheOptions::new()
        .by_object::<Secret>(ByObject::new().namespaces(["a", "b"]))
        .by_object::<Service>(ByObject::new().uncached());
    let cache = Cache::new(options).unwrap();
    cache.informer::<ConfigMap>().unwrap();
    cache.informer::<Deployment>().unwrap();
    (server, client_config, cache)
}

/// Grants a role to the operator.
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
async fn preflight_reports_exactly_the_missing_verbs_of_each_informer() {
    let (server, client_config, cache) = world();
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

    let found = cache.preflight(&client_config).await.unwrap();
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
    assert_eq!(
        asked.count(|r| r.is_for("services")),
        0,
        "services are not cached"
    );

    // Missing permissions for Events are only advice, so the program is ready.
    let advice: Vec<String> = found.advice.iter().map(ToString::to_string).collect();
    assert_eq!(advice, ["create, patch events.events.k8s.io"]);

    // The rules in the message can be applied as they are.
    let rules = found.rules("more");
    assert_eq!(rules.matches("kind: ClusterRole\n").count(), 1, "{rules}");
    assert_eq!(rules.matches("kind: Role\n").count(), 1, "{rules}");
    assert!(rules.contains("  verbs: [get, watch]\n"), "{rules}");
    assert!(found.to_string().ends_with(&found.rules("operator-cache")));
}

/// CACHE-14
#[tokio::test(start_paused = true)]
async fn cache_14_a_cache_of_one_object_needs_a_rule_for_that_object_alone() {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    for name in ["settings", "other"] {
        let metadata = json!({"name": name, "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        server.create(map).unwrap();
    }
    let client_config = ClientConfig::in_process(server.service_as(User::new("op")), "default");
    let cache = || {
        let one = ByObject::new().namespaces(["default"]);
        let one = one.fields("metadata.name=settings");
        let node = ByObject::new().fields("metadata.name=node-1");
        let options = CacheOptions::new().by_object::<ConfigMap>(one);
        Cache::new(options.by_object::<Node>(node)).unwrap()
    };
    let found = cache().preflight(&client_config).await.unwrap();
    let missing: Vec<String> = found.missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        missing,
        [
            "get, list, watch configmaps named \"settings\" in namespace \"default\"",
            "get, list, watch nodes named \"node-1\"",
        ]
    );
    let rules = found.rules("op");
    let of = |plural: &str, name: &str| {
        format!(
            "  resources: [{plural:?}]\n  resourceNames: [{name:?}]\n  verbs: [get, list, watch]\n"
        )
    };
    assert!(rules.contains(&of("configmaps", "settings")), "{rules}");
    assert!(rules.contains(&of("nodes", "node-1")), "{rules}");

    // Without the rule, the informer reports the same remedy.
    let refused = cache();
    let stop = CancellationToken::new();
    let run = tokio::spawn(refused.run(client_config.clone(), stop.clone()));
    let key = ObjectKey::namespaced("default", "settings");
    let error = refused.get::<ConfigMap>(&key).await.unwrap_err();
    assert!(
        error.to_string().contains("resourceNames: [\"settings\"]"),
        "{error}"
    );
    stop.cancel();
    run.await.unwrap().unwrap();

    // The reported rules suffice, for the preflight and for the informers.
    let rule = |plural: &str, name: &str| {
        json!([{"apiGroups": [""], "resources": [plural], "resourceNames": [name],
            "verbs": ["get", "list", "watch"]}])
    };
    let maps = rule("configmaps", "settings");
    grant(&server, "Role", Some("default"), &maps);
    grant(&server, "ClusterRole", None, &rule("nodes", "node-1"));
    let granted = cache();
    let found = granted.preflight(&client_config).await.unwrap();
    assert!(found.is_ready() && found.advice.len() == 1, "{found}");
    let stop = CancellationToken::new();
    let run = tokio::spawn(granted.run(client_config.clone(), stop.clone()));
    granted.get::<ConfigMap>(&key).await.unwrap();
    assert!(
        granted
            .list::<Node>(&ListOptions::new())
            .await
            .unwrap()
            .is_empty()
    );
    stop.cancel();
    run.await.unwrap().unwrap();

    // For a cache of the whole kind, the rule for one object is not enough.
    let all = Cache::new(CacheOptions::new().default_namespaces(["default"])).unwrap();
    all.informer::<ConfigMap>().unwrap();
    let found = all.preflight(&client_config).await.unwrap();
    assert_eq!(found.missing.len(), 1, "{found}");
    assert_eq!(found.missing[0].name, None);
    assert_eq!(found.advice.len(), 1, "{found}");
    assert_eq!(found.advice[0].namespace.as_deref(), Some("default"));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_named_with_its_definition() {
    let (server, _, cache) = world();
    let admin = ClientConfig::in_process(server.service(), "default");
    cache.informer::<Website>().unwrap();
    cache.informer::<Pod>().unwrap();
    let found = cache.preflight(&admin).await.unwrap();
    assert!(found.missing.is_empty(), "{found}");
    let (kind, remedy) = found.not_served.first().unwrap();
    assert_eq!(found.not_served.len(), 1, "{found}");
    assert_eq!(kind.plural(), "websites");
    assert!(
        remedy
            .as_ref()
            .unwrap()
            .contains("websites.web.example.com"),
        "{found}"
    );
}
