//! SRV-SNAP: a server that is restored from a snapshot goes on where the first one was.

mod write_ahead_log;

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Snapshot};

fn taken(server: &ApiServer) -> Snapshot {
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    Snapshot::read(&text).unwrap()
}

fn begun(server: &ApiServer) -> ApiServer {
    ApiServer::builder().restore(taken(server)).build()
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "sites", "kind": "Site"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

// SRV-SNAP-1.
#[tokio::test(start_paused = true)]
async fn srv_snap_1_objects_are_unchanged_and_uids_continue() {
    let server = ApiServer::new();
    server.install_crd(definition()).unwrap();
    let site = json!({"apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"name": "home"}, "spec": {"text": "é\u{1}"}});
    server.create(site).unwrap();
    server.create(config("a")).unwrap();
    server.delete("configmaps", "default", "a").unwrap();
    let again = begun(&server);
    assert_eq!(again.revision(), server.revision());
    for kind in [
        "sites.example.com",
        "namespaces",
        "customresourcedefinitions.apiextensions.k8s.io",
    ] {
        let before = server.list(kind, "");
        assert!(!before.is_empty(), "{kind}");
        assert_eq!(again.list(kind, ""), before, "{kind}");
    }
    assert!(again.list("configmaps", "").is_empty());
    // Two servers that go on from one point make the same uids, and none of the old ones.
    let (one, two) = (
        server.create(config("b")).unwrap(),
        again.create(config("b")).unwrap(),
    );
    assert_eq!(one["metadata"]["uid"], two["metadata"]["uid"]);
    assert_eq!(
        one["metadata"]["resourceVersion"],
        two["metadata"]["resourceVersion"]
    );
}

#[tokio::test(start_paused = true)]
async fn services_get_the_same_addresses_and_ports_after_a_restore() {
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
    };
    let server = ApiServer::new();
    let first = server.create(service("a")).unwrap();
    let again = begun(&server);
    let (one, two) = (
        server.create(service("b")).unwrap(),
        again.create(service("b")).unwrap(),
    );
    assert_eq!(one["spec"], two["spec"]);
    assert_ne!(first["spec"]["clusterIP"], two["spec"]["clusterIP"]);
}

#[tokio::test(start_paused = true)]
async fn owners_keep_their_dependents() {
    let server = ApiServer::new();
    let owner = server.create(config("owner")).unwrap();
    let mut child = config("child");
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"]}]);
    server.create(child).unwrap();
    let again = begun(&server);
    again.delete("configmaps", "default", "owner").unwrap();
    assert!(again.list("configmaps", "default").is_empty());
}
