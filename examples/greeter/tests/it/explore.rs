//! The operator survives crashes, lost answers and old states at each of its requests.

use greeter::api::greeting::Greeting;
use greeter::controllers;
use serde_json::json;
use steersman::ObjectKey;
use steersman_harness::{OperatorTest, Scenario};

#[tokio::test]
async fn no_crash_and_no_old_state_leaves_a_wrong_result() {
    let key = ObjectKey::namespaced("default", "example");
    let greeting = json!({
        "apiVersion": "example.com/v1alpha1",
        "kind": "Greeting",
        "metadata": {"name": "example", "namespace": "default"},
        "spec": {"message": "hello"},
    });
    let scenario = Scenario::new("greeting")
        .apply(greeting)
        .quiet()
        .merge::<Greeting>(&key, json!({"spec": {"message": "bye"}}))
        .quiet()
        .delete::<Greeting>(&key);
    let operator = OperatorTest::declared(controllers::add_all).crd_of::<Greeting>();
    let report = operator.explore(scenario).await.unwrap();
    println!("{}", report.summary());
}
