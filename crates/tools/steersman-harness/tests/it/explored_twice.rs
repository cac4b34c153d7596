//! Worlds with one seed are alike, as far as the operator takes time and randomness from its manager.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_controller::handler::mapped;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request, predicate};
use steersman_harness::{ExploreReport, OperatorTest, PerturbationKind, Scenario};
use steersman_manager::Manager;
use steersman_object::{Object as _, ObjectKey};

use crate::BoxError;

/// Keeps a ConfigMap for each word of a text.
struct Words;

/// Numbers its writes across all worlds: what an operator takes from elsewhere than its manager.
struct Numbers;

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Reconciler for Words {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(text) = client.get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let data = text.data.clone().unwrap_or_default();
        for (at, word) in data
            .get("text")
            .map_or("", String::as_str)
            .split(' ')
            .enumerate()
        {
            let key = request.key.sibling(format!("word-{at}"));
            let mut object = ConfigMap {
                metadata: key.to_meta(),
                ..ConfigMap::default()
            };
            let set = |object: &mut ConfigMap| {
                let data = object.data.get_or_insert_default();
                data.insert("word".to_owned(), word.to_owned());
            };
            match client.get_opt::<ConfigMap>(&key).await? {
                Some(found) => drop(client.modify(&found, set).await?),
                None => {
                    set(&mut object);
                    client.create(&object).await?;
                }
            }
        }
        Ok(Action::done())
    }
}

impl Reconciler for Numbers {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(text) = client.get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        if text
            .data
            .as_ref()
            .is_some_and(|data| data.contains_key("number"))
        {
            return Ok(Action::done());
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let set = |object: &mut ConfigMap| {
            let data = object.data.get_or_insert_default();
            data.insert("number".to_owned(), number.to_string());
        };
        client.modify(&text, set).await?;
        Ok(Action::done())
    }
}

/// Declares an operator that is called for the ConfigMap `text` alone.
fn operator<R: Reconciler>(make: impl Fn() -> R + Send + Sync + 'static) -> OperatorTest {
    OperatorTest::declared(move |manager: &Manager| -> Result<(), BoxError> {
        let controller = Controller::builder::<ConfigMap>()
            .with_predicates(predicate::object(|object: &ConfigMap| {
                object.metadata.name.as_deref() == Some("text")
            }))
            .watches::<Secret>(mapped(|secret: &Secret| [secret.key()]))
            .build(make())?;
        Ok(manager.add_controller(controller)?)
    })
}

fn scenario() -> Scenario {
    let key = ObjectKey::namespaced("default", "text");
    let text = |text: &str| json!({"data": {"text": text}});
    let mut object = text("roses are red");
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    object["metadata"] = json!({"name": "text", "namespace": "default"});
    // The operator does not watch the words, so it does not notice a user's changes of them.
    let kinds =
        PerturbationKind::all().filter(|kind| !["interfere", "missed"].contains(&kind.name()));
    Scenario::new("words")
        .perturbations(kinds)
        .apply(object)
        .quiet()
        .merge::<ConfigMap>(&key, text("violets are blue and here"))
        .quiet()
        .merge::<ConfigMap>(&key, text("sugar is sweet and so are you and all of them"))
        .quiet()
}

/// Returns the digest of the requests of each world, by its name.
fn logs(report: &ExploreReport) -> BTreeMap<String, u64> {
    let points = report.points.iter();
    points.map(|point| (point.name(), point.log)).collect()
}

#[tokio::test]
async fn two_hundred_worlds_send_the_same_requests_when_they_run_again() {
    let explore = || async { operator(|| Words).explore(scenario()).await.unwrap() };
    let (first, second) = (explore().await, explore().await);
    assert!(first.points.len() >= 200, "{}", first.summary());
    assert!(first.unrepeatable.is_empty(), "{:?}", first.unrepeatable);
    let (first, second) = (logs(&first), logs(&second));
    let differing: Vec<&String> = first
        .keys()
        .filter(|name| first.get(*name) != second.get(*name))
        .collect();
    assert_eq!((first.len(), differing), (second.len(), Vec::new()));
}

#[tokio::test]
async fn what_an_operator_takes_from_elsewhere_is_named() {
    let scenario = scenario()
        .only("reference")
        .ignore("ConfigMap", "data.number");
    let report = operator(|| Numbers).explore(scenario).await.unwrap();
    assert_eq!(report.unrepeatable.len(), 1, "{:?}", report.unrepeatable);
    assert!(
        report.unrepeatable[0].contains("default/text"),
        "{:?}",
        report.unrepeatable
    );
    assert!(
        report
            .summary()
            .contains("1 request differs between two worlds with one seed")
    );
}
