//! Four processes that share the work (`--shards`), with one API server over HTTPS, of which the test kills one.

use std::path::Path;

use example_program::once::is_ready;
use serde_json::json;
use steersman::kube_core::CustomResourceExt as _;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;
use website_operator::website::Website;

use crate::binary::{configured, site};
use crate::replica::{QUICK_ELECTION, Replica};

/// The number of namespaces, each with one website.
const NAMESPACES: usize = 16;

const GROUP: &str = "website-operator-shards";

fn start(home: &Path, name: &str) -> Replica {
    let arguments = [
        "--shards",
        "--leader-election-namespace=default",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    Replica::start(home, name, &[&QUICK_ELECTION[..], &arguments].concat())
}

fn namespaces() -> impl Iterator<Item = String> {
    (0..NAMESPACES).map(|number| format!("tenant-{number}"))
}

/// Waits until the assignment gives slots to a number of members.
async fn owners(server: &ApiServer, count: usize) {
    let shared = eventually("the replicas share the slots", || async move {
        let lease = server.get("leases.coordination.k8s.io", "default", GROUP);
        let lease = lease.ok_or("there is no Lease of the group")?;
        let text = &lease["metadata"]["annotations"]["steersman/shards-assignment"];
        let assignment: serde_json::Value =
            serde_json::from_str(text.as_str().unwrap_or_default()).unwrap_or_default();
        let grants = assignment["grants"].as_array().cloned().unwrap_or_default();
        let owners: std::collections::BTreeSet<String> = grants
            .iter()
            .map(|grant| grant["owner"].to_string())
            .collect();
        match owners.len() == count {
            true => Ok(()),
            false => Err(format!("{owners:?}")),
        }
    });
    shared.await.unwrap();
}

/// Waits until each website is ready with a number of web servers.
async fn served(server: &ApiServer, replicas: i32) {
    let ready = eventually("each website is ready", || async move {
        let missing = namespaces().filter(|namespace| {
            let site = server.get("websites.web.example.com", namespace, "site");
            let site: Website = serde_json::from_value(site.unwrap()).unwrap();
            !is_ready(&site)
                || site
                    .status
                    .is_none_or(|status| status.ready_replicas != replicas)
        });
        let missing: Vec<String> = missing.collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(missing.join(", ")),
        }
    });
    ready.await.unwrap();
}

fn scale(server: &ApiServer, replicas: i32) {
    for namespace in namespaces() {
        let patch = json!({"spec": {"replicas": replicas}});
        server
            .merge_patch("websites.web.example.com", &namespace, "site", &patch)
            .unwrap();
    }
}

#[test]
fn a_server_accepts_the_manifest_of_sharded_replicas() {
    let server = ApiServer::new();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "websites-system"},
    });
    server.create(namespace).unwrap();
    let manifest = include_str!("../../manifests/sharded.yaml");
    for document in manifest.split("\n---\n") {
        let object: serde_json::Value = serde_saphyr::from_str(document).unwrap();
        let stored = server.create(object.clone()).unwrap();
        let (kept, given) = (&stored["spec"], &object["spec"]);
        for field in ["behavior", "metrics", "strategy"] {
            let is_kept = given[field].is_null() || !kept[field].is_null();
            assert!(is_kept, "{field} of {kept}");
        }
    }
    let autoscalers = server.list("horizontalpodautoscalers.autoscaling", "websites-system");
    assert_eq!(
        autoscalers[0]["spec"]["scaleTargetRef"]["name"],
        "website-operator"
    );
    let deployments = server.list("deployments.apps", "websites-system");
    let container = &deployments[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"][0], "--shards");
}

/// The leases are of 3 s, 2 s and 0.5 s.
#[tokio::test]
async fn the_others_serve_the_websites_of_a_killed_replica() {
    let (env, home) = configured().await;
    let server = env.server().unwrap();
    let definition = serde_json::to_value(Website::crd()).unwrap();
    server.install_crd(definition).unwrap();
    for namespace in namespaces() {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(object).unwrap();
        let pages = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "pages", "namespace": namespace}, "data": {"index.html": "hi"},
        });
        server.create(pages).unwrap();
        let mut site = site("site", "pages");
        site["metadata"]["namespace"] = namespace.into();
        server.create(site).unwrap();
    }
    let names = ["one", "two", "three", "four"];
    let mut replicas: Vec<Replica> = names.map(|name| start(home.path(), name)).into();
    owners(server, 4).await;
    served(server, 1).await;
    scale(server, 2);
    served(server, 2).await;

    let mut killed = replicas.remove(1);
    killed.kill().await;
    scale(server, 3);
    served(server, 3).await;
    owners(server, 3).await;
    for replica in &replicas {
        let log = replica.log();
        assert!(
            log.contains("the shards of this replica have changed"),
            "{log}"
        );
    }
}
