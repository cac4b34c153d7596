//! Driver: runs the worlds of an exploration on threads, each world with a runtime of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use k8s_openapi::jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use steersman_cache::CacheOptions;
use steersman_object::panic_text;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::explore::engine::{
    Campaign, CampaignOptions, ExploreReport, NextWorld, WorldOrder, WorldResult,
};
use steersman_testenv::apiserver::explore::{ExploreError, run_world};
use steersman_webhook::WebhookServer;
use tokio::time::Instant;

use super::manager_host::ManagerHost;
use super::scenario::{Configure, Scenario};
use crate::called_webhooks;
use crate::error::{BoxError, HarnessError};
use crate::explore_failure::ExploreFailure;
use crate::external::MakeOperator;

/// The time at which each world begins, so that worlds with one seed are alike: 2026-01-01T00:00:00Z.
const WORLDS_BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The operator that is explored.
pub(crate) struct ExploredOperator {
    pub(crate) make: MakeOperator,
    pub(crate) cache: CacheOptions,
    pub(crate) webhooks: Option<WebhookServer>,
    pub(crate) definitions: Vec<Value>,
}

/// What the threads of an exploration share.
struct Exploration {
    operator: ExploredOperator,
    configure: Configure,
    state: Mutex<ExplorationState>,
    /// Notifies the threads that a world has ended.
    changed: Condvar,
    began: Instant,
}

struct ExplorationState {
    campaign: Campaign,
    failed: Option<BoxError>,
}

/// Explores an operator. Returns the report if nothing was found.
pub(crate) fn explore(
    mut operator: ExploredOperator,
    scenario: Scenario,
) -> Result<ExploreReport, HarnessError> {
    if let Some(mistake) = &scenario.mistake {
        return Err(HarnessError::Explore(
            format!("the scenario {}: {mistake}", scenario.name).into(),
        ));
    }
    let name = scenario.name.clone();
    let options = CampaignOptions {
        is_repeatable: true,
        ..scenario.options.clone()
    };
    let configure = Arc::clone(&scenario.configure);
    let definitions = std::mem::take(&mut operator.definitions);
    let campaign = Campaign::new(scenario.build(definitions), options);
    let exploration = Exploration {
        operator,
        configure,
        state: Mutex::new(ExplorationState {
            campaign,
            failed: None,
        }),
        changed: Condvar::new(),
        began: Instant::now(),
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| exploration.run());
        }
    });
    let time = exploration.began.elapsed();
    let state = exploration.state.into_inner();
    if let Some(failed) = state.failed {
        return Err(HarnessError::Explore(failed));
    }
    let again = "Scenario::only(\"{name}\")".to_owned();
    let result = state.campaign.finish();
    let report = result.into_report(name.clone(), name, time, again);
    let unmatched = &report.desired_states.unmatched;
    if report.findings.is_empty() && !unmatched.is_empty() {
        let fields = unmatched.join(", ");
        let mistake = format!(
            "the scenario {}: no schema has the fields {fields}",
            report.scenario
        );
        Err(HarnessError::Explore(mistake.into()))
    } else if report.findings.is_empty() {
        Ok(report)
    } else {
        let report = Box::new(report);
        Err(HarnessError::Explored(ExploreFailure { report }))
    }
}

impl Exploration {
    /// Runs worlds until none is left.
    fn run(&self) {
        loop {
            let order = {
                let mut state = self.state.lock();
                loop {
                    if state.failed.is_some() {
                        return;
                    }
                    match state.campaign.next_world(self.began.elapsed()) {
                        NextWorld::Run(order) => break order,
                        NextWorld::Wait => self.changed.wait(&mut state),
                        NextWorld::Done => {
                            self.changed.notify_all();
                            return;
                        }
                    }
                }
            };
            let id = order.id;
            // A panic in the operator's declaration ends the exploration: the other threads must not wait for this world.
            let done = catch_unwind(AssertUnwindSafe(|| self.run_world(*order)));
            let done = done
                .unwrap_or_else(|panic| Err(format!("a panic: {}", panic_text(&*panic)).into()));
            let mut state = self.state.lock();
            match done {
                Ok(result) => state.campaign.finish_world(id, result),
                Err(error) => {
                    let refusal = error.downcast_ref::<ExploreError>();
                    let is_refused = refusal.is_some_and(ExploreError::is_refusal);
                    if !state.campaign.fail_world(id, is_refused) {
                        state.failed.get_or_insert(error);
                    }
                }
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Runs one world on a runtime with a paused clock. Dropping the runtime ends all tasks of the world.
    fn run_world(&self, order: WorldOrder) -> Result<WorldResult, BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()?;
        runtime.block_on(async {
            let server = (self.configure)(ApiServer::builder().starts_at(WORLDS_BEGIN))
                .seed(order.seed)
                .build();
            let operator = &self.operator;
            let elects = order.scenario.rules.replicas > 1;
            let cache = operator.cache.clone();
            let host = ManagerHost::new(
                server.clone(),
                (operator.make)(),
                cache,
                (elects, order.seed),
            );
            if let Some(webhooks) = &operator.webhooks {
                for definition in order
                    .scenario
                    .initial
                    .iter()
                    .filter(|one| one["kind"] == "CustomResourceDefinition")
                {
                    let refused = |source| ExploreError::Initial {
                        object: definition["metadata"]["name"].to_string(),
                        source: Box::new(source),
                    };
                    server.install_crd(definition.clone()).map_err(refused)?;
                }
                called_webhooks::call(&server, webhooks)?;
            }
            Ok(run_world(order, server, Arc::new(host)).await?)
        })
    }
}
