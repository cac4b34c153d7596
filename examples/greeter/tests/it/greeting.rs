//! A Greeting is published, and stays published.

use greeter::api::greeting::{Greeting, GreetingSpec};
use greeter::controllers;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman::cli::BoxError;
use steersman::status_conditions;
use steersman_harness::{OperatorTest, Prepared, RunningOperator};

/// The rules of RBAC that the operator was seen to need. Commit the file: `cargo steersman generate` makes the role of it.
const OBSERVED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rbac.observed.yaml");

/// Creates a Greeting with a message.
async fn create(prepared: Prepared) -> Result<(), BoxError> {
    let spec = GreetingSpec {
        message: "hello".to_owned(),
    };
    let mut object = Greeting::new("example", spec);
    object.metadata.namespace = Some(prepared.namespace().to_owned());
    prepared.client().create(&object).await?;
    Ok(())
}

// On a paused clock, so that waiting takes no time.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_message_is_published_in_a_config_map() {
    let mut operator = OperatorTest::declared(controllers::add_all)
        .crd_of::<Greeting>()
        .observe_rbac(OBSERVED)
        .before_start(create)
        .start()
        .await
        .unwrap();

    // Reads from the API server, not from the cache.
    let message = async |operator: &RunningOperator| {
        let client = operator.client().live();
        let config: ConfigMap = client.get(&operator.key("example")).await.unwrap();
        config.data.unwrap()["message"].clone()
    };

    // One reconcile for the object, and others for the events of its own writes.
    operator.tick_until_steady(3).await.unwrap();
    assert_eq!(message(&operator).await, "hello");
    let client = operator.client().clone();
    let object: Greeting = client.live().get(&operator.key("example")).await.unwrap();
    let conditions = &object.status.as_ref().unwrap().conditions;
    assert!(status_conditions::is_true(conditions, "Ready"));

    // A change is published, too. Without it the operator would not be seen to need the permission.
    let change = |object: &mut Greeting| object.spec.message = "bye".to_owned();
    client.modify(&object, change).await.unwrap();
    operator.tick_until_steady(3).await.unwrap();
    assert_eq!(message(&operator).await, "bye");

    // A new start of the operator changes nothing.
    operator.assert_settled().await.unwrap();
    operator.stop().await.unwrap();
}
