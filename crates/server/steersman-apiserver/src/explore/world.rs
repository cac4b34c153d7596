//! Driver: runs one world from its initial objects to its last problem.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_apimachinery::status::Status;
use steersman_explore::{
    Gate, Judge, ObjectId, ObjectMap, PerturbationKind, Problem, Step, WorldEventKind, WorldOrder,
    WorldResult,
};

use super::error::ExploreError;
use super::host::OperatorHost;
use super::user;
use super::world_core::{WorldCore, WorldGate};
use super::world_state::WorldState;
use crate::server::ApiServer;

/// The pause before the user tries a step again that failed because a webhook did not answer.
const USER_RETRY: Duration = Duration::from_millis(200);

/// A running world.
struct World {
    core: Arc<WorldCore>,
    order: WorldOrder,
    /// The objects at each quiet step, and at the end.
    states: Mutex<Vec<ObjectMap>>,
}

#[derive(Debug, PartialEq, Eq)]
enum QuietWait {
    Quiet,
    TooLate,
}

/// Runs a world: creates the initial objects, starts the operator, does the steps of the user, waits until all is as in the
/// reference, and stops the operator.
///
/// `server` must be new, and the processes that `host` starts must send their requests to this server.
///
/// # Errors
/// [`ExploreError`] if the world cannot run; problems of the operator are part of the result.
///
/// # Cancel safety
/// Not cancel safe: processes of the operator may remain; `host` ends them.
pub async fn run_world(
    order: WorldOrder,
    server: ApiServer,
    host: Arc<dyn OperatorHost>,
) -> Result<WorldResult, ExploreError> {
    for object in order.scenario.initial.iter() {
        create_initial(&server, object).await?;
    }
    let points = order.reference.as_ref().map(|reference| &reference.points);
    let (gate, actions) = Gate::new(&order.perturbations, points);
    let judge = Judge::new(&order.scenario, order.reference.clone());
    let state = WorldState::new(gate, judge);
    let core = Arc::new(WorldCore::new(server, host, order.scenario.clone(), state));
    core.server
        .set_gate(Some(Arc::new(WorldGate(Arc::clone(&core)))));
    core.state.lock().step_revision = core.server.revision();
    core.act(actions).await;
    let is_permitted = order
        .perturbations
        .iter()
        .any(|one| may_end_process(one.kind));
    let exits = {
        let core = Arc::clone(&core);
        tokio::spawn(async move { core.follow_exits(is_permitted).await })
    };
    let states = Mutex::default();
    let world = World {
        core,
        order,
        states,
    };
    let done = world.run().await;
    exits.abort();
    world.core.kill_all().await;
    world.core.server.set_gate(None);
    let at_end = done?;
    Ok(world.finish(at_end))
}

async fn create_initial(
    server: &ApiServer,
    object: &serde_json::Value,
) -> Result<(), ExploreError> {
    let done = match object["kind"].as_str() {
        Some("CustomResourceDefinition") => server
            .install_crd(object.clone())
            .map(drop)
            .map_err(Box::new),
        _ => user::apply(server, object).await,
    };
    done.map_err(|source| ExploreError::Initial {
        object: ObjectId::of(object).to_string(),
        source,
    })
}

/// Returns whether a perturbation is a reason for a correct operator to end: it lost its lease.
fn may_end_process(kind: PerturbationKind) -> bool {
    matches!(kind, PerturbationKind::TwoLeaders)
}

impl World {
    async fn run(&self) -> Result<Vec<Problem>, ExploreError> {
        let rules = &self.order.scenario.rules;
        for _ in 0..rules.replicas {
            self.core.start_process().await?;
        }
        self.wait_until_started().await?;
        let mut quiet_steps = 0;
        for (number, step) in self.order.scenario.steps.iter().enumerate() {
            if self.core.state.lock().judge.is_over() {
                break;
            }
            if *step == Step::Quiet {
                let wrong = self.settle(Some(quiet_steps)).await;
                quiet_steps += 1;
                // The steps after a wrong state would only hide it.
                if !wrong.is_empty() {
                    return Ok(wrong);
                }
                continue;
            }
            self.step(number + 1, step).await?;
        }
        let wrong = self.settle(None).await;
        let restarts = self
            .order
            .perturbations
            .iter()
            .any(|one| one.kind == PerturbationKind::SettledRestart);
        if restarts && wrong.is_empty() {
            self.restart_settled().await?;
        }
        Ok(wrong)
    }

    /// Waits for the first watch of the operator; for an operator without watches, until it is quiet.
    async fn wait_until_started(&self) -> Result<(), ExploreError> {
        let rules = &self.order.scenario.rules;
        let limit = self.core.now() + rules.patience;
        let mut changed = self.core.changed.subscribe();
        loop {
            let (is_watching, quiet_at) = {
                let state = self.core.state.lock();
                (
                    state.is_watching(),
                    state.quiet_since().map(|since| since + rules.quiet),
                )
            };
            let now = self.core.now();
            if is_watching || quiet_at.is_some_and(|at| at <= now) {
                return Ok(());
            }
            if now >= limit {
                if self.order.reference.is_some() {
                    return Ok(());
                }
                let output = self.core.host.output(1);
                let output = if output.is_empty() {
                    String::new()
                } else {
                    format!("; it printed:\n  {}", output.join("\n  "))
                };
                return Err(ExploreError::NoRequest {
                    within: rules.patience,
                    output,
                });
            }
            self.wait(&mut changed, quiet_at.unwrap_or(limit).min(limit))
                .await;
        }
    }

    async fn step(&self, number: usize, step: &Step) -> Result<(), ExploreError> {
        let patience = self.order.scenario.rules.patience;
        match step {
            Step::Pass(time) => {
                self.core.tell(WorldEventKind::User(step.to_string()));
                tokio::time::sleep(*time).await;
                return Ok(());
            }
            _ => self.core.tell(WorldEventKind::User(step.to_string())),
        }
        let limit = self.core.now() + patience;
        let done = loop {
            let done = user::act(&self.core.server, step).await;
            // A webhook that does not answer fails the request; the user tries again.
            let is_temporary = done.as_ref().is_err_and(|status| status.code >= 500);
            if !is_temporary || self.core.now() >= limit {
                break done;
            }
            tokio::time::sleep(USER_RETRY).await;
        };
        let now = self.core.now();
        {
            let mut state = self.core.state.lock();
            state.touch(now);
            state.step_revision = self.core.server.revision();
            if let Step::Delete { object, .. } = step {
                state.judge.after_user(object);
            }
        }
        match done {
            Ok(()) => Ok(()),
            Err(source) if self.order.reference.is_none() => Err(ExploreError::Step {
                number,
                step: step.to_string(),
                source,
            }),
            Err(status) => {
                let refused = describe_refusal(&status);
                self.core.tell(WorldEventKind::User(refused));
                Ok(())
            }
        }
    }

    /// Waits until the operator is quiet in a state that is as it must be, at a quiet step or at the end. Returns what is
    /// wrong then.
    async fn settle(&self, quiet_step: Option<usize>) -> Vec<Problem> {
        let patience = self.order.scenario.rules.patience;
        let mut limit = self.core.now() + patience;
        let mut changed = self.core.changed.subscribe();
        loop {
            if self.wait_until_quiet(limit).await == QuietWait::TooLate {
                self.note_not_quiet();
                // The problem is noted; the state of a busy operator says nothing.
                return Vec::new();
            }
            self.core.tell(WorldEventKind::Quiet);
            if self.release_held().await {
                limit = self.core.now() + patience;
                continue;
            }
            let objects = ObjectId::map(self.core.server.objects());
            let wrong = self
                .core
                .state
                .lock()
                .judge
                .wrong_when_quiet(quiet_step, &objects);
            if wrong.is_empty() {
                self.states.lock().push(objects);
                return wrong;
            }
            // The operator may still get there, for instance after a backoff: waits for its next change.
            let before = self.core.server.revision();
            while self.core.server.revision() == before {
                if self.core.now() >= limit {
                    return wrong;
                }
                self.wait(&mut changed, limit).await;
            }
        }
    }

    /// Restarts all processes, and notes what they write although all is settled.
    async fn restart_settled(&self) -> Result<(), ExploreError> {
        let restarted = "the operator is restarted; nothing is left to do".to_owned();
        self.core.tell(WorldEventKind::Perturbed(restarted));
        let before = self.core.state.lock().changes.len();
        self.core.kill_all().await;
        for _ in 0..self.order.scenario.rules.replicas {
            self.core.start_process().await?;
        }
        let limit = self.core.now() + self.order.scenario.rules.patience;
        if self.wait_until_quiet(limit).await == QuietWait::TooLate {
            self.note_not_quiet();
        }
        let mut state = self.core.state.lock();
        let writes = state.changes.get(before..).unwrap_or_default().to_vec();
        if !writes.is_empty() {
            state.judge.note(Problem::SettledWrites(writes));
        }
        Ok(())
    }

    /// Lets arrive what perturbations hold back. Returns whether anything was held back.
    async fn release_held(&self) -> bool {
        let actions = self.core.state.lock().gate.become_quiet();
        let held = !actions.is_empty();
        self.core.act(actions).await;
        held
    }

    async fn wait_until_quiet(&self, limit: Duration) -> QuietWait {
        let quiet = self.order.scenario.rules.quiet;
        let mut changed = self.core.changed.subscribe();
        loop {
            let quiet_at = self
                .core
                .state
                .lock()
                .quiet_since()
                .map(|since| since + quiet);
            let now = self.core.now();
            if quiet_at.is_some_and(|at| at <= now) {
                return QuietWait::Quiet;
            }
            if now >= limit {
                return QuietWait::TooLate;
            }
            self.wait(&mut changed, quiet_at.unwrap_or(limit).min(limit))
                .await;
        }
    }

    /// Waits until something happens, at most until a time.
    async fn wait(&self, changed: &mut tokio::sync::watch::Receiver<u64>, until: Duration) {
        tokio::select! {
            // The sender lives as long as the core, so waiting cannot fail.
            _ = changed.changed() => {}
            () = tokio::time::sleep_until(self.core.instant(until)) => {}
        }
    }

    fn note_not_quiet(&self) {
        let mut state = self.core.state.lock();
        let mut writes = state.writes.clone();
        if state.quiet_since().is_none() {
            writes.push("the operator has not watched since its last start".to_owned());
        }
        state.judge.note_not_quiet(&writes);
    }

    fn finish(self, at_end: Vec<Problem>) -> WorldResult {
        let objects = ObjectId::map(self.core.server.objects());
        let kinds = [
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
        ];
        let has_webhooks = objects.keys().any(|id| kinds.contains(&id.kind.as_str()));
        let mut state = self.core.state.lock();
        let judge = Judge::new(&self.order.scenario, None);
        let judge = std::mem::replace(&mut state.judge, judge);
        let mut points = std::mem::take(&mut state.points);
        points.has_webhooks = has_webhooks;
        WorldResult {
            problems: judge.finish(at_end),
            events: std::mem::take(&mut state.events),
            points,
            states: self.states.into_inner(),
            is_reached: state.gate.has_happened(),
            time: self.core.now(),
        }
    }
}

fn describe_refusal(status: &Status) -> String {
    format!("is refused with {}: {}", status.code, status.message)
}
