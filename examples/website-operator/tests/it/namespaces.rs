//! The program with --namespace: informers of several namespaces, and permissions in these namespaces only.

use serde_json::json;
use steersman::kube_core::CustomResourceExt as _;
use steersman_testenv::TestEnv;
use tempfile::TempDir;
use website_operator::website::Website;

use crate::binary::{error_of, operator, text};
use crate::world::simulator;

/// The resources of the operator.
const RESOURCES: [&str; 8] = [
    "websites.web.example.com",
    "websites.web.example.com/status",
    "websites.web.example.com/finalizers",
    "configmaps",
    "services",
    "deployments.apps",
    "pods",
    "events.events.k8s.io",
];

#[tokio::test]
async fn two_namespaces_on_the_embedded_server_become_ready() {
    let home = TempDir::new().unwrap();
    let mut command = operator(home.path());
    // The variable names no cluster, and --embedded does not look at it.
    command.env("KUBECONFIG", "nowhere.yaml");
    command.args(["--once", "--embedded", "--namespace=default,shop"]);
    let output = command.output().await.unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.starts_with("started an API server"), "{said}");
    let served = "Website default/hello is Served: 2 of 2 pods are ready";
    assert!(said.contains(served), "{said}");
}

#[tokio::test]
async fn roles_in_two_namespaces_suffice_and_no_other_namespace_is_read() {
    let env = TestEnv::https(simulator()).await.unwrap();
    let server = env.server().unwrap();
    let definition = serde_json::to_value(Website::crd()).unwrap();
    server.install_crd(definition).unwrap();
    for namespace in ["web", "shop", "other"] {
        let named =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(named).unwrap();
        let pages = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "pages", "namespace": namespace}, "data": {"index.html": "hi"},
        });
        server.create(pages).unwrap();
        let site = json!({
            "apiVersion": "web.example.com/v1", "kind": "Website",
            "metadata": {"name": "site", "namespace": namespace},
            "spec": {"pages": "pages", "replicas": 1},
        });
        server.create(site).unwrap();
    }
    let mut user = env.user("system:serviceaccount:web:operator");
    for namespace in ["web", "shop"] {
        user = user.allow_in(namespace, ["*"], RESOURCES);
    }
    let user = user.create().await.unwrap();
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("config"), user.kubeconfig().unwrap()).unwrap();

    let mut command = operator(home.path());
    command.env("KUBECONFIG", "config");
    command.args(["--once", "--namespace", "web,shop"]);
    let output = command.output().await.unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for namespace in ["web", "shop"] {
        let served = format!("Website {namespace}/site is Served: 1 of 1 pods are ready");
        assert!(said.contains(&served), "{said}");
    }
    assert!(!said.contains("other/site"), "{said}");

    // Without the flag, the error names the request that the Roles do not permit.
    let mut command = operator(home.path());
    command.env("KUBECONFIG", "config").arg("--once");
    let error = error_of(&command.output().await.unwrap());
    assert!(
        error.contains("websites") && error.contains("403"),
        "{error}"
    );
}

#[tokio::test]
async fn a_failed_start_stops_the_embedded_server_and_removes_its_kubeconfig() {
    let home = TempDir::new().unwrap();
    let mut command = operator(home.path());
    // The manager has no controller of this name, so its start fails.
    command.args([
        "--embedded",
        "--controller=wbsite.max-concurrent-reconciles=2",
    ]);
    let error = error_of(&command.output().await.unwrap());
    assert!(error.contains("\"wbsite\""), "{error}");
    assert!(!home.path().join("website-operator.kubeconfig").exists());
}
