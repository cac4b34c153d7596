//! Driver: measures explorations in this process, on paused clocks.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_apiserver::play::{Played, Speed};
use steersman_controller::{Action, Context, Error, Reconciler, Request};
use steersman_harness::{OperatorTest, Scenario};
use steersman_object::ObjectKey;
use website_operator::controller;
use website_operator::website::Website;

use crate::process::{BenchResult, cpu_time, repeat};
use crate::report::{Figure, Spread};

/// The time that an idle operator lives in one world.
const IDLE: Duration = Duration::from_hours(1_000);

/// The interval in which the idle operator reconciles its object again.
const RESYNC: Duration = Duration::from_mins(10);

/// An operator that has nothing to do.
struct Idle;

impl Reconciler for Idle {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        ctx.client().get_opt::<ConfigMap>(&request.key).await?;
        Ok(Action::requeue_after(RESYNC))
    }
}

/// Measures the exploration of the website operator.
pub(super) async fn website(is_quick: bool) -> BenchResult<Vec<Figure>> {
    let runs = if is_quick { 1 } else { 5 };
    let measured = repeat(runs, "the exploration of website-operator", async || {
        let before = cpu_time();
        let operator = OperatorTest::declared(controller::declare).crd_of::<Website>();
        let report = operator.explore(scenario()).await?;
        Ok((report.worlds, report.time, cpu_time() - before))
    })
    .await?;
    let rate = |(worlds, _, cpu): &(usize, Duration, Duration)| count(*worlds) / cpu.as_secs_f64();
    let worlds = measured.first().map_or(0, |(worlds, ..)| *worlds);
    let what = format!(
        "worlds per second of a core: the exploration of website-operator, {worlds} worlds with played workloads"
    );
    let took = "the same exploration from its start to its report, on all cores";
    let time = Spread::over(&measured, |(_, time, _)| time.as_secs_f64());
    Ok(vec![
        Figure::new(
            "explore/worlds",
            what,
            "worlds/s",
            Spread::over(&measured, rate),
        )
        .more_is_better()
        .at_least(300.0),
        Figure::new("explore/website", took, "s", time),
    ])
}

/// Returns what the tests of website-operator explore, too.
fn scenario() -> Scenario {
    let key = ObjectKey::namespaced("default", "hello");
    let pages_key = ObjectKey::namespaced("default", "pages");
    let pages = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"index.html": "hi"},
        "metadata": {"name": "pages", "namespace": "default"},
    });
    let site = json!({
        "apiVersion": "web.example.com/v1", "kind": "Website",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"image": "nginx:1.29", "replicas": 2, "pages": "pages"},
    });
    Scenario::new("website")
        .on_server(|server| server.play(Played::everything().speed(Speed::brisk())))
        .initial(pages)
        .apply(site)
        .quiet()
        .merge::<ConfigMap>(&pages_key, json!({"data": {"index.html": "bye"}}))
        .quiet()
        .scale::<Website>(&key, 3)
        .quiet()
        .delete::<Website>(&key)
}

/// Measures how fast the paused clock runs for an idle operator.
pub(super) async fn idle(is_quick: bool) -> BenchResult<Vec<Figure>> {
    let runs = if is_quick { 1 } else { 5 };
    let measured = repeat(runs, "an idle operator", async || {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "text", "namespace": "default"},
        });
        let scenario = Scenario::new("idle")
            .apply(object)
            .quiet()
            .pass(IDLE)
            .only("reference");
        let before = cpu_time();
        let report = OperatorTest::new::<ConfigMap>(Idle)
            .explore(scenario)
            .await?;
        let hours = count(report.worlds) * IDLE.as_secs_f64() / 3_600.0;
        Ok(hours / (cpu_time() - before).as_secs_f64())
    })
    .await?;
    let what = "hours of a paused clock per second of a core: an idle operator that reconciles every 10 minutes";
    Ok(vec![
        Figure::new("explore/idle", what, "h/s", Spread::of(measured))
            .more_is_better()
            .at_least(1_000.0),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "worlds are fewer than 2^53")]
fn count(worlds: usize) -> f64 {
    worlds as f64
}
