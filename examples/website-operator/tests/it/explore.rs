//! The operator survives crashes, lost answers and old states at each of its requests.

use serde_json::{Value, json};
use steersman::ObjectKey;
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman_harness::{OperatorTest, Scenario};
use steersman_testenv::apiserver::play::{Played, Speed};
use website_operator::controller;
use website_operator::website::Website;

fn pages(text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "pages", "namespace": "default"},
        "data": {"index.html": text},
    })
}

#[tokio::test]
async fn no_crash_and_no_old_state_leaves_a_wrong_site() {
    let key = ObjectKey::namespaced("default", "hello");
    let pages_key = ObjectKey::namespaced("default", "pages");
    let site = json!({
        "apiVersion": "web.example.com/v1",
        "kind": "Website",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"image": "nginx:1.29", "replicas": 2, "pages": "pages"},
    });
    let scenario = Scenario::new("website")
        .on_server(|server| server.play(Played::everything().speed(Speed::brisk())))
        .initial(pages("hi"))
        .apply(site)
        .quiet()
        .merge::<ConfigMap>(&pages_key, json!({"data": {"index.html": "bye"}}))
        .quiet()
        .scale::<Website>(&key, 3)
        .quiet()
        .delete::<Website>(&key);
    let operator = OperatorTest::declared(controller::declare).crd_of::<Website>();
    let report = operator.explore(scenario).await.unwrap();
    assert!(!report.points.is_empty(), "{}", report.summary());
}
