//! What a user of an exploration does is what a user of a cluster does.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_controller::{Action, Context, Error, Reconciler, Request};
use steersman_harness::{HarnessError, OperatorTest, PerturbationKind, Scenario};
use steersman_manager::Manager;
use steersman_object::ObjectKey;

use crate::BoxError;

/// Writes the length of a text beside it.
struct Counter;

impl Reconciler for Counter {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let Some(config) = ctx.client().get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let count = |config: &mut ConfigMap| {
            let data = config.data.get_or_insert_default();
            let length = data.get("text").map_or(0, String::len);
            data.insert("length".to_owned(), length.to_string());
        };
        ctx.client().modify(&*config, count).await?;
        Ok(Action::done())
    }
}

#[tokio::test]
async fn an_object_that_a_user_creates_again_has_the_changes_of_later_steps() {
    let key = ObjectKey::namespaced("default", "poem");
    let poem = |text: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "poem", "namespace": "default"},
            "data": {"text": text},
        })
    };
    let scenario = Scenario::new("poem")
        .initial(poem("a"))
        .apply(poem("roses"))
        .quiet()
        .merge::<ConfigMap>(&key, json!({"data": {"text": "violets"}}))
        .quiet()
        .apply(poem("forget-me-nots"))
        .perturbations([PerturbationKind::Missed]);
    let operator = OperatorTest::new::<ConfigMap>(Counter);
    let report = operator.explore(scenario).await.unwrap();
    assert!(!report.points.is_empty());
}

/// The threads of other worlds must not wait for the world that panicked.
#[tokio::test]
async fn a_declaration_that_panics_ends_the_exploration_with_its_text() {
    let operator = OperatorTest::declared(|_: &Manager| -> Result<(), BoxError> {
        panic!("no declaration");
    });
    let poem = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "poem"}});
    let explored = operator.explore(Scenario::new("panics").apply(poem)).await;
    let Err(HarnessError::Explore(source)) = explored else {
        panic!("{explored:?}");
    };
    assert!(source.to_string().contains("no declaration"), "{source}");
}
