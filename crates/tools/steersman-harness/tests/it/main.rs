//! Tests the harness on the embedded server with operators that have known faults.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod explore;
mod explored_program;
mod explored_records;
mod explored_twice;
mod explored_users;
mod permissions;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_controller::{
    Action, Context, Controller, Error, Reconciler, Request, predicate, reconcile,
};
use steersman_harness::{HarnessError, OperatorTest, Prepared, RunningOperator};
use steersman_manager::{Manager, runnable};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::log;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A reconciler that writes a value into the ConfigMap `a`: the same value each time, or always another.
#[derive(Clone, Default)]
struct Writer {
    is_restless: bool,
    reconciles: Arc<AtomicUsize>,
}

impl Reconciler for Writer {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let count = self.reconciles.fetch_add(1, Ordering::SeqCst);
        let Some(config) = ctx.client().get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let value = if self.is_restless { count } else { 0 };
        let write = |config: &mut ConfigMap| {
            let data = config.data.get_or_insert_default();
            data.insert("value".to_owned(), value.to_string());
        };
        ctx.client().modify(&*config, write).await?;
        Ok(Action::done())
    }
}

async fn create(prepared: Prepared) -> Result<(), BoxError> {
    let config = ConfigMap {
        metadata: prepared.key("a").to_meta(),
        ..ConfigMap::default()
    };
    prepared.client().create(&config).await?;
    Ok(())
}

/// Declares a controller of ConfigMaps that ignores the events of its own writes.
fn declare(writer: &Writer, manager: &Manager) -> Result<(), BoxError> {
    let controller = Controller::builder::<ConfigMap>()
        .with_predicates(predicate::func(|event| event.is_create()))
        .build(writer.clone())?;
    Ok(manager.add_controller(controller)?)
}

async fn started(writer: Writer) -> RunningOperator {
    let operator = OperatorTest::declared(move |manager| declare(&writer, manager));
    operator.before_start(create).start().await.unwrap()
}

async fn value(operator: &RunningOperator) -> String {
    let key = operator.key("a");
    let config: ConfigMap = operator.client().live().get(&key).await.unwrap();
    config.data.unwrap()["value"].clone()
}

fn text(error: &HarnessError) -> String {
    assert!(error.is_unmet(), "{error:?}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_writes_once_is_settled() {
    let mut operator = started(Writer::default()).await;
    assert_eq!(operator.tick_until_steady(1).await.unwrap(), 1);
    assert_eq!(value(&operator).await, "0");
    operator.assert_settled().await.unwrap();
    assert_eq!(operator.reconciles(), 1, "each object is requested once");
    operator.stop().await.unwrap();
}

/// HARNESS-2: every write in a round without changes is counted.
#[tokio::test(start_paused = true)]
async fn a_write_in_a_round_without_changes_fails_and_is_named() {
    let mut operator = started(Writer {
        is_restless: true,
        ..Writer::default()
    })
    .await;
    operator.tick_until_steady(1).await.unwrap();
    let error = text(&operator.assert_settled().await.unwrap_err());
    let write = format!("patch configmaps {}/a", operator.namespace());
    assert!(
        error.contains("1 writes:") && error.contains(&write),
        "{error}"
    );
}

/// HARNESS-1: a wait for a steady operator ends when no reconcile runs and nothing is stored.
#[tokio::test(start_paused = true)]
async fn an_operator_that_triggers_itself_exceeds_its_bound() {
    let _log = log::capture();
    let writer = Writer {
        is_restless: true,
        ..Writer::default()
    };
    let operator = OperatorTest::new::<ConfigMap>(writer).before_start(create);
    let mut operator = operator.start().await.unwrap();
    let error = text(&operator.tick_until_steady(10).await.unwrap_err());
    assert!(error.contains("the bound of 10 reconciles"), "{error}");
    // The error includes the report of the environment.
    assert!(error.contains("requests to the server"), "{error}");
    assert!(error.contains("controllers, by their metrics"), "{error}");
}

/// HARNESS-1: a wait for a steady operator ends when no reconcile runs and nothing is stored.
#[tokio::test(start_paused = true)]
async fn an_operator_that_never_rests_is_not_steady() {
    let restless = reconcile::from_fn(|_: Context, _: Request| async {
        Ok::<_, Error>(Action::requeue_after(Duration::from_millis(500)))
    });
    let operator = OperatorTest::new::<ConfigMap>(restless)
        .before_start(create)
        .steady_within(Duration::from_secs(30));
    let mut operator = operator.start().await.unwrap();
    let error = text(&operator.tick_until_steady(10_000).await.unwrap_err());
    assert!(
        error.contains("a steady operator did not come true within 30s"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_halt_are_found_after_the_restart() {
    let writer = Writer::default();
    let seen = Arc::clone(&writer.reconciles);
    let mut operator = started(writer).await;
    operator.tick_until_steady(1).await.unwrap();
    operator.halt().await.unwrap();
    let config = ConfigMap {
        metadata: operator.key("b").to_meta(),
        ..ConfigMap::default()
    };
    operator.client().create(&config).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    operator.restart().await.unwrap();
    assert_eq!(operator.tick_until_steady(2).await.unwrap(), 2);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_ends_ends_the_wait() {
    let operator = OperatorTest::declared(|manager: &Manager| {
        let broken = runnable::from_fn("broken", steersman_manager::Group::Others, |_| async {
            Err("it broke".into())
        });
        manager.add(broken)
    });
    let mut operator = operator.start().await.unwrap();
    let error = operator.tick_until_steady(1).await.unwrap_err();
    assert!(matches!(error, HarnessError::Ended(Some(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn definitions_and_objects_exist_before_the_operator_starts() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "websites", "kind": "Website"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let create = |prepared: Prepared| async move {
        let website = json!({
            "apiVersion": "example.com/v1", "kind": "Website",
            "metadata": {"name": "home", "namespace": prepared.namespace()},
        });
        prepared.client().apply_manifest(&website).await?;
        Ok(())
    };
    let is_there = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&is_there);
    let server = ApiServer::new();
    let looked_at = server.clone();
    let operator = OperatorTest::declared(move |_: &Manager| -> Result<(), BoxError> {
        let websites = looked_at.list("websites.example.com", "");
        seen.store(websites.len(), Ordering::SeqCst);
        Ok(())
    });
    let operator = operator
        .server(server)
        .crds([definition])
        .before_start(create);
    let operator = operator.start().await.unwrap();
    assert_eq!(is_there.load(Ordering::SeqCst), 1);
    operator.stop().await.unwrap();
}

#[tokio::test]
async fn the_same_test_runs_over_the_network() {
    let writer = Writer::default();
    let operator = OperatorTest::declared(move |manager| declare(&writer, manager));
    let operator = operator
        .over_network()
        .in_own_namespace()
        .before_start(create);
    let mut operator = operator.start().await.unwrap();
    operator.tick_until_steady(1_000).await.unwrap();
    assert_eq!(value(&operator).await, "0");
    operator.assert_settled().await.unwrap();
    operator.stop().await.unwrap();
}
