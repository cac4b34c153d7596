//! Driver: runs one world from its initial objects to its last problem.

mod settling;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use steersman_explore::{
    ComparedObjects, Interceptor, Judge, ObjectId, ObjectMap, PerturbationKind, Polling, Problem,
    Step, WorldEventKind, WorldOrder, WorldResult,
};

use tokio::task::JoinSet;

use self::settling::Settled;
use super::error::ExploreError;
use super::host::OperatorHost;
use super::user;
use super::world_core::{RESTARTS, WorldCore, WorldInterceptor};
use super::world_state::WorldState;
use crate::server::ApiServer;

/// The pause before the user tries a step again that failed because a webhook did not answer.
const USER_RETRY: Duration = Duration::from_millis(200);

/// The time for the start of a process, if the patience of the scenario is shorter: many operators that start at once are
/// slow.
const LONGEST_START: Duration = Duration::from_secs(30);

/// The time for a first poll, in quiet times.
const FIRST_POLL: u32 = 10;

/// The code of an object that breaks its schema.
const INVALID: u16 = 422;

/// A running world.
struct World {
    core: Arc<WorldCore>,
    order: WorldOrder,
    /// The objects at each quiet step, and at the end.
    states: Mutex<Vec<ObjectMap>>,
    /// The numbers of the steps that the server refused.
    refused: Mutex<Vec<usize>>,
    /// The requests of which the last reconcile had failed when the operator was quiet.
    failing: Mutex<Vec<String>>,
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
    let first_revision = server.revision();
    for object in order.scenario.initial.iter() {
        create_initial(&server, object).await?;
    }
    if order.compares == ComparedObjects::Created && order.reference.is_none() {
        try_steps(&server, &order.scenario.steps).await?;
    }
    let points = order.reference.as_ref().map(|reference| &reference.points);
    let (interceptor, actions) = Interceptor::new(&order.perturbations, points);
    let mut judge = Judge::new(&order.scenario, order.reference.clone());
    if order.compares == ComparedObjects::Created {
        judge = judge.of_desired_state();
    }
    let mut state = WorldState::new(interceptor, judge);
    state.must_poll = points.is_none_or(|points| points.polling == Polling::Repeats);
    state
        .leases
        .note_election(points.is_some_and(|points| points.elects));
    let scenario = order.scenario.clone();
    let core = WorldCore::new(server, host, scenario, first_revision, state);
    let core = Arc::new(core);
    core.server
        .set_interceptor(Some(Arc::new(WorldInterceptor(Arc::clone(&core)))));
    core.state.lock().step_revision = core.server.revision();
    core.act(actions).await;
    let is_permitted = order
        .perturbations
        .iter()
        .any(|one| may_end_process(one.kind));
    // Ends when this future is dropped, too.
    let mut exits = JoinSet::<()>::new();
    exits.spawn({
        let core = Arc::clone(&core);
        async move { core.follow_exits(is_permitted).await }
    });
    let world = World {
        core,
        order,
        states: Mutex::default(),
        refused: Mutex::default(),
        failing: Mutex::default(),
    };
    let done = world.run().await;
    exits.abort_all();
    world.core.kill_all().await;
    world.core.server.set_interceptor(None);
    let at_end = match done {
        // Another desired state may be why the operator no longer answers the calls of its webhooks.
        Err(ExploreError::Step { .. }) if world.has_problems() => Vec::new(),
        done => done?,
    };
    Ok(world.finish(at_end))
}

async fn create_initial(server: &ApiServer, object: &Value) -> Result<(), ExploreError> {
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

/// Looks for a desired state that the schema of its kind refuses, before the operator takes its time to start.
async fn try_steps(server: &ApiServer, steps: &[Step]) -> Result<(), ExploreError> {
    let mut objects = server.objects().into_iter();
    if objects.any(|object| object["kind"] == "MutatingWebhookConfiguration") {
        // The operator may complete what its users leave out.
        return Ok(());
    }
    for (at, step) in steps.iter().enumerate() {
        match user::try_step(server, step).await {
            Err(source) if source.code == INVALID => {
                return Err(ExploreError::Step {
                    number: at + 1,
                    step: step.to_string(),
                    source,
                });
            }
            // Other refusals may come from what does not exist yet.
            _ => {}
        }
    }
    Ok(())
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
            self.core.state.lock().steps_begun = number + 1;
            if *step == Step::Quiet {
                let settled = self.settle(Some(quiet_steps)).await;
                quiet_steps += 1;
                // The steps after a wrong state would only hide it.
                if let Settled::Wrong(wrong) = settled {
                    return Ok(wrong);
                }
                continue;
            }
            self.step(number + 1, step).await?;
            let is_refused = !self.refused.lock().is_empty();
            if is_refused && self.order.compares == ComparedObjects::Created {
                // The states that follow are those of other desired states than the reference has.
                return Ok(Vec::new());
            }
        }
        let settled = self.settle(None).await;
        let restarts = self
            .order
            .perturbations
            .iter()
            .any(|one| one.kind == PerturbationKind::SettledRestart);
        match settled {
            Settled::Wrong(wrong) => return Ok(wrong),
            Settled::AsExpected if restarts => self.restart_settled().await?,
            Settled::AsExpected => {}
        }
        Ok(Vec::new())
    }

    /// Returns how long the operator must not write to count as quiet. Undisturbed worlds decide what all others are
    /// compared with, and a slow operator must not be judged too early there, so they wait twice as long.
    fn quiet_time(&self) -> Duration {
        let rules = &self.order.scenario.rules;
        let is_undisturbed = self.order.reference.is_none();
        // A short patience does not allow the double time.
        let times = if is_undisturbed && rules.quiet * 3 <= rules.patience {
            2
        } else {
            1
        };
        rules.quiet * times
    }

    fn has_problems(&self) -> bool {
        self.order.compares == ComparedObjects::Created
            && self.core.state.lock().judge.has_problems()
    }

    /// Returns whether waiting is useless: an undisturbed world has a problem already, or no process runs any more.
    fn is_broken(&self) -> bool {
        let state = self.core.state.lock();
        let is_undisturbed = self.order.reference.is_none();
        (is_undisturbed && state.judge.has_problems())
            || state.is_given_up(RESTARTS.len())
            || state.never_waits()
    }

    /// Waits for the first watch of the operator; for an operator without watches, until it has read the same twice and is
    /// quiet.
    async fn wait_until_started(&self) -> Result<(), ExploreError> {
        let rules = &self.order.scenario.rules;
        let quiet = self.quiet_time();
        let began = self.core.now();
        let longest = rules.patience.max(LONGEST_START);
        let limit = began + longest;
        // An operator that neither watches nor polls by then, such as a server of webhooks, need not poll later either.
        let must_poll_until = began + rules.patience.min(FIRST_POLL * rules.quiet);
        let mut changed = self.core.changed.subscribe();
        loop {
            let now = self.core.now();
            let (is_watching, quiet_at) = {
                let mut state = self.core.state.lock();
                if now >= must_poll_until && state.has_asked() && self.order.reference.is_none() {
                    state.must_poll = state.points.polling == Polling::Repeats;
                }
                if let (None, false, Some(end)) = (
                    &self.order.reference,
                    state.has_asked(),
                    state.last_exit.take(),
                ) {
                    return Err(ExploreError::Ended {
                        how: end.how,
                        output: self.printed(end.process),
                    });
                }
                let quiet_at = state.quiet_since().map(|since| since + quiet);
                (state.is_watching(), quiet_at)
            };
            if is_watching || quiet_at.is_some_and(|at| at <= now) || self.is_broken() {
                return Ok(());
            }
            if now >= limit {
                if self.order.reference.is_some() || self.core.state.lock().has_asked() {
                    return Ok(());
                }
                return Err(ExploreError::NoRequest {
                    within: longest,
                    output: self.printed(1),
                });
            }
            let next = if now < must_poll_until {
                must_poll_until
            } else {
                limit
            };
            self.wait(&mut changed, quiet_at.unwrap_or(next).min(next))
                .await;
        }
    }

    /// Returns what a process printed last, to follow a message.
    fn printed(&self, process: usize) -> String {
        let output = self.core.host.output(process);
        if output.is_empty() {
            return "; it printed nothing".to_owned();
        }
        format!("; it printed:\n  {}", output.join("\n  "))
    }

    async fn step(&self, number: usize, step: &Step) -> Result<(), ExploreError> {
        let patience = self.order.scenario.rules.patience;
        match step {
            Step::Pass(time) => {
                self.core.tell(WorldEventKind::User(step.to_string()));
                self.pass(*time).await;
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
                self.refused.lock().push(number);
                let refused = format!("is refused with {}: {}", status.code, status.message);
                self.core.tell(WorldEventKind::User(refused));
                Ok(())
            }
        }
    }

    /// Returns the objects but those of the server itself, which differ from world to world, as they are compared.
    fn objects(&self) -> ObjectMap {
        ObjectId::map(without_those_of_server(self.core.compared_objects()))
    }

    /// Returns those of the objects that are compared; `None` for all of them.
    fn compared(&self, objects: &ObjectMap) -> Option<ObjectMap> {
        if self.order.compares == ComparedObjects::All {
            return None;
        }
        let records = ObjectId::map(self.core.host.records());
        let state = self.core.state.lock();
        let is_compared = |id: &ObjectId| {
            state.created.contains(id)
                || self.order.scenario.applies(id)
                || records.contains_key(id)
        };
        let compared = objects.iter().filter(|(id, _)| is_compared(id));
        Some(
            compared
                .map(|(id, object)| (id.clone(), object.clone()))
                .collect(),
        )
    }

    fn finish(self, at_end: Vec<Problem>) -> WorldResult {
        let objects = self.objects();
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
            refused: self.refused.into_inner(),
            failing: self.failing.into_inner(),
            is_reached: state.interceptor.has_happened(),
            time: self.core.now(),
        }
    }
}

fn without_those_of_server(mut objects: Vec<Value>) -> Vec<Value> {
    objects.retain(|object| !is_of_server(object));
    objects
}

/// Returns whether an object is a part of the Service `kubernetes`, which has the port of the server.
fn is_of_server(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    matches!(kind, "Service" | "Endpoints" | "EndpointSlice")
        && object["metadata"]["name"] == "kubernetes"
        && object["metadata"]["namespace"] == "default"
}
