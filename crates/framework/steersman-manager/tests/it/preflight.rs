//! What a manager logs about the permissions of its cache.

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_core::CustomResourceExt as _;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::{ApiServer, Authorization, User};
use steersman_crds::Crds;
use steersman_manager::Manager;
use steersman_testenv::log::{CapturedLog, capture};

use crate::missing_kinds::Website;
use crate::world::{manager_of, soon, start};

const REVIEWS: &str = "selfsubjectaccessreviews.authorization.k8s.io";

/// Returns a server on which the operator may read ConfigMaps and nothing else.
fn server() -> ApiServer {
    let server = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .build();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "op"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "op"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "op"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "op"}],
    });
    for object in [role, binding] {
        server.create(object).unwrap();
    }
    server
}

/// Runs a manager until its kinds have settled, and returns its log.
async fn log_of(server: &ApiServer, asks: bool, services: bool) -> CapturedLog {
    let log = capture();
    let client_config = ClientConfig::in_process(server.service_as(User::new("op")), "default");
    let manager = Manager::builder(client_config).preflight(asks);
    let manager = manager.build().unwrap();
    manager.cache().informer::<ConfigMap>().unwrap();
    if services {
        manager.cache().informer::<Service>().unwrap();
    }
    let started = start(&manager);
    manager.cache().settled().await;
    // In process each request is answered at once, so a moment of the paused clock suffices for all.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    started.stop().await.unwrap();
    log
}

#[tokio::test(start_paused = true)]
async fn a_preflight_logs_missing_rules_and_the_manager_starts() {
    let server = server();
    let log = log_of(&server, true, true).await.text();
    assert!(
        log.contains("not allowed: get, list, watch services"),
        "{log}"
    );
    assert!(log.contains("kind: ClusterRole\n"), "{log}");
    assert!(
        !log.contains("not allowed: get, list, watch configmaps"),
        "{log}"
    );

    let log = log_of(&server, true, false).await.text();
    assert!(
        log.contains("the cache has all permissions that it needs"),
        "{log}"
    );
    assert!(!log.contains("WARN"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn without_a_preflight_the_manager_asks_for_no_rules() {
    let server = server();
    let log = log_of(&server, false, true).await.text();
    assert!(!log.contains("not allowed: get"), "{log}");
    assert_eq!(server.requests().count(|r| r.is_for(REVIEWS)), 0);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_the_operator_installs_itself_is_not_missing() {
    let log = capture();
    let server = ApiServer::new();
    let definitions = Crds::new().with(Website::crd());
    let manager = manager_of(&server).preflight(true).crds(definitions);
    let manager = manager.build().unwrap();
    manager.cache().informer::<Website>().unwrap();
    let started = start(&manager);
    soon(manager.crds().installed()).await;
    manager.cache().settled().await;
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    started.stop().await.unwrap();
    let log = log.text();
    assert!(log.contains("the cache has all permissions"), "{log}");
    assert!(!log.contains("may not read every kind"), "{log}");
}
