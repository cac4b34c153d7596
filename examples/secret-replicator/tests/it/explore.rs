//! The replicator survives crashes, lost answers and old states at each of its requests.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use secret_replicator::names::{ACCEPT, NAMESPACES, ROLE, SOURCE};
use serde_json::{Value, json};
use steersman::ObjectKey;
use steersman_harness::Scenario;

use crate::world::{NAME, operator};

#[tokio::test]
async fn no_crash_and_no_old_state_leaves_a_wrong_copy() {
    let source = ObjectKey::namespaced("vault", NAME);
    let shop = ObjectKey::cluster_scoped("shop");
    let scenario = Scenario::new("replicator")
        .initial(namespace("vault", "false"))
        .initial(namespace("shop", "true"))
        .initial(namespace("web", "false"))
        .apply(secret("first"))
        .quiet()
        .merge::<Secret>(&source, json!({"data": data("second")}))
        .quiet()
        .merge::<Namespace>(&ObjectKey::cluster_scoped("web"), accept("true"))
        .quiet()
        .merge::<Namespace>(&shop, accept("false"))
        .quiet()
        .delete::<Secret>(&source);
    let report = operator().explore(scenario).await.unwrap();
    assert!(!report.points.is_empty(), "{}", report.summary());
}

fn namespace(name: &str, accepts: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {ACCEPT: accepts}},
    })
}

fn accept(accepts: &str) -> Value {
    json!({"metadata": {"labels": {ACCEPT: accepts}}})
}

fn secret(value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": NAME,
            "namespace": "vault",
            "labels": {ROLE: SOURCE},
            "annotations": {NAMESPACES: "shop,web"},
        },
        "data": data(value),
    })
}

fn data(value: &str) -> Value {
    json!({"key": ByteString(value.as_bytes().to_vec())})
}
