//! The metrics of a manager are those that the guide lists.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::{IntCounter, Registry};
use serde_json::json;
use steersman::controller::{ControllerDefaults, ReconcileLimit};
use steersman::lease::LeaderElection;
use steersman::manager::Shutdown;
use steersman::{Action, ClientConfig, Context, Controller, Error, Manager, Reconciler, Request};
use steersman_apiserver::ApiServer;
use tokio::sync::Notify;

const PAGE: &str = include_str!("../../guide/manager.md");

/// Returns the names in the first column of the table of metrics.
fn documented() -> BTreeSet<&'static str> {
    let table = PAGE.split("| Metric |").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let names = rows.flat_map(|row| {
        let cell = row.split(" | ").next().unwrap_or_default();
        cell.split('`').skip(1).step_by(2)
    });
    names.collect()
}

struct Once(&'static Notify);

impl Reconciler for Once {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        ctx.client().get_opt::<ConfigMap>(&request.key).await?;
        self.0.notify_one();
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn the_guide_tells_every_metric_and_none_that_is_not_there() {
    static DONE: Notify = Notify::const_new();
    let server = ApiServer::new();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    server.create(object).unwrap();
    let registry = Registry::new();
    let manager = Manager::builder(ClientConfig::in_process(server.service(), "default"))
        .metrics_registry(registry.clone())
        .leader_election(
            LeaderElection::new("shop")
                .namespace("default")
                .on_callers_runtime(),
        )
        // The metrics of permits exist only with a limit.
        .controllers(
            ControllerDefaults::new().reconcile_limit(ReconcileLimit::new(NonZeroUsize::MIN)),
        )
        .build()
        .unwrap();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                // The metric of paused objects exists only with a rule.
                .pause_when(|_| false)
                .build(Once(&DONE))
                .unwrap(),
        )
        .unwrap();
    manager
        .start(Shutdown::when(DONE.notified()))
        .await
        .unwrap();
    let documented = documented();
    assert!(documented.len() > 30, "the table is not found");
    for family in registry.gather() {
        assert!(
            documented.contains(family.name()),
            "{} is not in the guide",
            family.name()
        );
    }
    for name in documented {
        // No name can be registered twice, so a failure shows that the metric is registered.
        let other = IntCounter::new(name, "another").unwrap();
        assert!(registry.register(Box::new(other)).is_err(), "no {name}");
    }
}
