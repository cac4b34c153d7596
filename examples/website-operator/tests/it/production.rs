//! The objects of the guide's page about production: an API server accepts them, and the program runs with the
//! permissions that they grant.

use serde_json::{Value, json};
use steersman::kube_core::CustomResourceExt as _;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::User;
use website_operator::website::Website;

use crate::binary::{configured, free_address, operator, site};

const PAGE: &str = include_str!("../../../../crates/framework/steersman/guide/production.md");

/// Returns the documents of the page's YAML blocks, in their order.
pub(crate) fn documents() -> impl Iterator<Item = Value> {
    let blocks = PAGE.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    let documents = blocks.flat_map(|block| block.split("\n---\n"));
    documents.map(|document| serde_saphyr::from_str(document).unwrap())
}

/// Returns the objects of the manifest of the webhooks.
pub(crate) fn webhook_objects() -> impl Iterator<Item = Value> {
    let manifest = include_str!("../../manifests/webhooks.yaml");
    manifest
        .split("\n---\n")
        .map(|text| serde_saphyr::from_str(text).unwrap())
}

/// Installs the definition of the Prometheus operator's kind, without its schema.
pub(crate) fn install_service_monitors(server: &ApiServer) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"plural": "servicemonitors", "singular": "servicemonitor", "kind": "ServiceMonitor"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    });
    server.install_crd(definition).unwrap();
}

#[tokio::test]
async fn the_program_runs_with_the_objects_of_the_guide() {
    let (env, home) = configured().await;
    let server = env.server().unwrap();
    install_service_monitors(server);
    for document in documents().chain(webhook_objects()) {
        let name = format!("{} {}", document["kind"], document["metadata"]["name"]);
        if let Err(refused) = server.create(document) {
            panic!("{name}: {refused:?}");
        }
    }

    // The Service selects the Pods, and the ServiceMonitor the Service.
    let find = |resource, name| server.get(resource, "websites-system", name).unwrap();
    let deployment = find("deployments.apps", "website-operator");
    let service = find("services", "website-operator-metrics");
    let monitor = find("servicemonitors.monitoring.coreos.com", "website-operator");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert!(labels.is_object() || labels.is_string(), "{labels}");
    assert_eq!(&service["spec"]["selector"], labels);
    let selected = &monitor["spec"]["selector"]["matchLabels"];
    assert!(selected.is_object() || selected.is_string(), "{selected}");
    assert_eq!(&service["metadata"]["labels"], selected);
    let port = &monitor["spec"]["endpoints"][0]["port"];
    assert!(port.is_object() || port.is_string(), "{port}");
    assert_eq!(&service["spec"]["ports"][0]["name"], port);

    let account = "system:serviceaccount:websites-system:website-operator";
    let token = server.add_user(User::new(account));
    let mut config: Value = serde_saphyr::from_str(&env.kubeconfig().unwrap()).unwrap();
    config["users"][0]["user"] = json!({ "token": token });
    config["contexts"][0]["context"]["namespace"] = json!("websites-system");
    std::fs::write(home.path().join("config"), config.to_string()).unwrap();
    let pages = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "pages", "namespace": "default"}, "data": {"index.html": "hi"},
    });
    server.create(pages).unwrap();
    server
        .install_crd(serde_json::to_value(Website::crd()).unwrap())
        .unwrap();
    server.create(site("hello", "pages")).unwrap();
    let address = free_address();
    let url = format!("https://{address}");
    server.route_service("websites-system", "website-operator", 443, &url);
    let mut command = operator(home.path());
    command.env("KUBECONFIG", "config").args([
        "--once",
        "--install",
        "--leader-elect",
        "--leader-election-namespace=websites-system",
        "--log-level=info",
    ]);
    command.arg(format!("--webhook-bind-address={address}"));
    let output = command.output().await.unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let refused = server
        .requests()
        .matching(|request| request.user == account && request.status == Some(403));
    assert!(refused.is_empty(), "{refused:?}");
    let written = |resource: &str| {
        server
            .requests()
            .count(|request| request.user == account && request.resource == resource)
    };
    assert!(written("leases") > 0 && written("websites") > 0, "{log}");
}
