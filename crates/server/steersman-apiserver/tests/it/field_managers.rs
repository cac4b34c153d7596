//! Tests of field managers of custom resources while their CRD changes its versions.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{Answer, ask, get, merge, server};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

fn crd(versions: &[(&str, bool, bool)]) -> Value {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": text, "b": text, "c": text}}}});
    let version = |(name, served, storage): &(&str, bool, bool)| {
        json!({"name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": schema}})
    };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"}, "versions": versions}})
}

fn path(version: &str, name: &str) -> String {
    format!("/apis/example.com/{version}/things/{name}")
}

async fn apply(
    server: &ApiServer,
    (version, name, manager): (&str, &str, &str),
    spec: Value,
) -> Answer {
    let path = format!("{}?fieldManager={manager}", path(version, name));
    let body = json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing",
        "metadata": {"name": name}, "spec": spec});
    let headers = [("content-type", "application/apply-patch+yaml")];
    ask(server, "PATCH", &path, &headers, body.to_string()).await
}

async fn edit(server: &ApiServer, version: &str, manager: &str, spec: Value) -> Value {
    let path = format!("{}?fieldManager={manager}", path(version, "x"));
    let patch = json!({"spec": spec});
    merge(server, &path, &patch).await.expect(200)
}

/// Returns manager, operation, version and spec fields of each entry.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let owner = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap().to_owned();
        let fields = entry["fieldsV1"]["f:spec"].as_object().unwrap();
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let (manager, operation) = (text("manager"), text("operation"));
        let (version, names) = (text("apiVersion"), names.join(","));
        format!("{manager} {operation} {version} {names}")
    };
    entries.iter().map(owner).collect()
}

/// Creates a server with the objects `x` and `y`, which were written in v1; v1 is no longer stored
/// or served.
async fn moved() -> ApiServer {
    let server = server();
    let before = crd(&[("v1", true, true), ("v2", true, false)]);
    server.install_crd(before).unwrap();
    for name in ["x", "y"] {
        let spec = json!({"a": "1", "b": "1"});
        let made = apply(&server, ("v1", name, "old"), spec).await;
        made.expect(201);
    }
    edit(&server, "v1", "editor", json!({"c": "1"})).await;
    let after = crd(&[("v1", false, false), ("v2", true, true)]);
    let change = json!({"spec": after["spec"]});
    merge(&server, CRD, &change).await.expect(200);
    server
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_version_that_is_not_served_any_more_still_own_their_fields() {
    let server = moved().await;
    assert_eq!(get(&server, &path("v1", "x")).await.status, 404);
    let old = "old Apply example.com/v1 f:a,f:b";
    let shown = get(&server, &path("v2", "x")).await.expect(200);
    assert_eq!(owners(&shown), [old, "editor Update example.com/v1 f:c"]);

    let conflict = apply(&server, ("v2", "x", "new"), json!({"a": "2"})).await;
    assert_eq!(
        conflict.expect(409)["message"],
        "Apply failed with 1 conflict: conflict with \"old\": .spec.a"
    );
    // An update takes over the fields it changes, and leaves the other entries unchanged.
    let edited = edit(&server, "v2", "editor", json!({"c": "2"})).await;
    assert_eq!(owners(&edited), [old, "editor Update example.com/v2 f:c"]);
    // A manager that applies in another version gives up the fields it leaves out.
    let applied = apply(&server, ("v2", "x", "old"), json!({"a": "2"})).await;
    let applied = applied.expect(200);
    assert_eq!(applied["spec"], json!({"a": "2", "c": "2"}));
    assert_eq!(
        owners(&applied),
        [
            "old Apply example.com/v2 f:a",
            "editor Update example.com/v2 f:c"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_version_that_was_removed_are_dropped_and_take_nothing_away() {
    let server = moved().await;
    let stored = json!({"status": {"storedVersions": ["v2"]}});
    let status = format!("{CRD}/status");
    merge(&server, &status, &stored).await.expect(200);
    let left = json!({"spec": {"versions": crd(&[("v2", true, true)])["spec"]["versions"]}});
    merge(&server, CRD, &left).await.expect(200);

    let applied = apply(&server, ("v2", "y", "old"), json!({"a": "2"})).await;
    let applied = applied.expect(200);
    assert_eq!(applied["spec"], json!({"a": "2", "b": "1"}));
    assert_eq!(owners(&applied), ["old Apply example.com/v2 f:a"]);

    let edited = edit(&server, "v2", "new", json!({"b": "2"})).await;
    assert_eq!(owners(&edited), ["new Update example.com/v2 f:b"]);
}
