//! No crash, lost answer or old state leaves a wrong result of a Greeting.

use greeter::api::greeting::Greeting;
use greeter::controllers;
use steersman::object::Object as _;
use steersman_harness::{OperatorTest, Scenario, sample};

/// The folder with a valid Greeting.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/samples");

// Runs the operator in many worlds, each with an API server and a paused clock of its own: in each world it is killed at
// another of its requests, or loses an answer, or sees an old state. All must end like the undisturbed one.
#[tokio::test]
async fn each_world_ends_like_the_undisturbed_one() {
    let mut object: Greeting = sample(SAMPLES).unwrap();
    object.metadata.namespace = Some("default".to_owned());
    let key = object.key();
    let mut changed = object.clone();
    changed.spec.message = "bye".to_owned();
    // What a user does. Add a step for each part of the spec.
    let scenario = Scenario::new("Greeting")
        .apply(&object)
        .quiet()
        .apply(&changed)
        .quiet()
        .delete::<Greeting>(&key);
    let operator = OperatorTest::declared(controllers::add_all).crd_of::<Greeting>();
    let report = operator.explore(scenario).await.unwrap();
    assert!(!report.points.is_empty(), "{}", report.summary());
}
