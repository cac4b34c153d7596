//! Driver: runs one world from its initial objects to its last problem.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use steersman_explore::{
    Interceptor, Judge, ObjectId, ObjectMap, PerturbationKind, Polling, Problem, Step,
    WorldEventKind, WorldOrder, WorldResult,
};

use tokio::task::JoinSet;

use super::error::ExploreError;
use super::host::OperatorHost;
use super::user;
use super::world_core::{RESTARTS, WorldCore, WorldInterceptor};
use super::world_state::{ProcessStart, WorldState};
use crate::server::ApiServer;

/// The pause before the user tries a step again that failed because a webhook did not answer.
const USER_RETRY: Duration = Duration::from_millis(200);

/// The time for the start of a process, if the patience of the scenario is shorter: many operators that start at once are
/// slow.
const LONGEST_START: Duration = Duration::from_secs(30);

/// The time for a first poll, in quiet times.
const FIRST_POLL: u32 = 10;

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
    /// The operator cannot become quiet, because of a problem that is noted.
    Broken,
}

/// The end of the wait for the state of the reference.
#[derive(Debug)]
enum Settled {
    AsExpected,
    /// Not as expected, or not quiet. Problems that are noted already are not among these.
    Wrong(Vec<Problem>),
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
    let (interceptor, actions) = Interceptor::new(&order.perturbations, points);
    let judge = Judge::new(&order.scenario, order.reference.clone());
    let mut state = WorldState::new(interceptor, judge);
    state.must_poll = points.is_none_or(|points| points.polling == Polling::Repeats);
    let core = Arc::new(WorldCore::new(server, host, order.scenario.clone(), state));
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
    let states = Mutex::default();
    let world = World {
        core,
        order,
        states,
    };
    let done = world.run().await;
    exits.abort_all();
    world.core.kill_all().await;
    world.core.server.set_interceptor(None);
    let at_end = done?;
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
                let refused = format!("is refused with {}: {}", status.code, status.message);
                self.core.tell(WorldEventKind::User(refused));
                Ok(())
            }
        }
    }

    /// Waits until the operator is quiet in a state that is as it must be, at a quiet step or at the end. Returns what is
    /// wrong then.
    async fn settle(&self, quiet_step: Option<usize>) -> Settled {
        let patience = self.order.scenario.rules.patience;
        let mut limit = self.core.now() + patience;
        let mut changed = self.core.changed.subscribe();
        loop {
            match self.wait_until_quiet(limit).await {
                QuietWait::Quiet => {}
                // What is held back may be what the operator waits for.
                QuietWait::TooLate if self.release_held().await => {
                    limit = self.core.now() + patience;
                    continue;
                }
                QuietWait::TooLate => {
                    self.note_not_quiet();
                    // The state of a busy operator says nothing.
                    return Settled::Wrong(Vec::new());
                }
                QuietWait::Broken => return Settled::Wrong(Vec::new()),
            }
            self.core.tell(WorldEventKind::Quiet);
            if self.release_held().await {
                limit = self.core.now() + patience;
                continue;
            }
            let state = || (self.core.server.revision(), self.core.host.records());
            // Read first: a change while the state is judged is a reason to judge again.
            let before = state();
            let objects = self.objects();
            let wrong = self
                .core
                .state
                .lock()
                .judge
                .wrong_when_quiet(quiet_step, &objects);
            if wrong.is_empty() {
                self.states.lock().push(objects);
                return Settled::AsExpected;
            }
            // The operator may still get there, for instance after a backoff: waits for its next change.
            while state() == before {
                let limit = self.limit(limit);
                if self.core.now() >= limit || self.is_broken() {
                    return Settled::Wrong(wrong);
                }
                // Changes of the server itself, such as those of played controllers, and of records outside of the cluster
                // wake no task.
                let next = limit.min(self.core.now() + self.quiet_time());
                self.wait(&mut changed, next).await;
            }
        }
    }

    /// Restarts all processes, and notes what they write although all is settled.
    async fn restart_settled(&self) -> Result<(), ExploreError> {
        let restarted = "the operator is restarted; nothing is left to do".to_owned();
        self.core.tell(WorldEventKind::Perturbed(restarted));
        let before = self.core.state.lock().changes.len();
        let records = ObjectId::map(self.core.host.records());
        self.core.kill_all().await;
        for _ in 0..self.order.scenario.rules.replicas {
            self.core.start_process().await?;
        }
        let limit = self.core.now() + self.order.scenario.rules.patience;
        if self.wait_until_quiet(limit).await == QuietWait::TooLate {
            self.note_not_quiet();
        }
        let mut state = self.core.state.lock();
        let mut writes = state.changes.get(before..).unwrap_or_default().to_vec();
        let after = ObjectId::map(self.core.host.records());
        let all: BTreeSet<&ObjectId> = records.keys().chain(after.keys()).collect();
        let changed = all
            .into_iter()
            .filter(|id| records.get(id) != after.get(id));
        writes.extend(changed.map(|id| format!("change {id}, outside of the cluster")));
        if !writes.is_empty() {
            state.judge.note(Problem::SettledWrites(writes));
        }
        Ok(())
    }

    /// Lets arrive what perturbations hold back. Returns whether anything was held back.
    async fn release_held(&self) -> bool {
        let actions = self.core.state.lock().interceptor.become_quiet();
        let held = !actions.is_empty();
        self.core.act(actions).await;
        held
    }

    /// Returns when patience ends, at `limit` at the earliest: patience begins when the processes have started.
    fn limit(&self, limit: Duration) -> Duration {
        let patience = self.order.scenario.rules.patience;
        let state = self.core.state.lock();
        match state.start() {
            ProcessStart::Starting(since) => limit.max(since + patience.max(LONGEST_START)),
            ProcessStart::Started(at) => limit.max(at + patience),
            ProcessStart::None => limit,
        }
    }

    async fn wait_until_quiet(&self, limit: Duration) -> QuietWait {
        let quiet = self.quiet_time();
        let mut changed = self.core.changed.subscribe();
        loop {
            if self.core.state.lock().never_waits() {
                return QuietWait::TooLate;
            }
            if self.is_broken() {
                return QuietWait::Broken;
            }
            let limit = self.limit(limit);
            let (quiet_at, idle_at) = {
                let state = self.core.state.lock();
                let idle = state.idle_since().filter(|_| !state.is_displaced());
                (
                    state.quiet_since().map(|since| since + quiet),
                    idle.map(|since| since + quiet),
                )
            };
            let now = self.core.now();
            if quiet_at.is_some_and(|at| at <= now) {
                return QuietWait::Quiet;
            }
            if now >= limit {
                // An operator that polls no more has nothing to do.
                return match idle_at {
                    Some(at) if at <= now => QuietWait::Quiet,
                    _ => QuietWait::TooLate,
                };
            }
            self.wait(&mut changed, quiet_at.unwrap_or(limit).min(limit))
                .await;
        }
    }

    /// Lets time pass, unless the operator never waits.
    async fn pass(&self, time: Duration) {
        let until = self.core.now() + time;
        let mut changed = self.core.changed.subscribe();
        while self.core.now() < until && !self.core.state.lock().never_waits() {
            self.wait(&mut changed, until).await;
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

    /// Returns the objects of the server but for those of the server itself, which differ from world to world.
    fn objects(&self) -> ObjectMap {
        let mut objects = self.core.objects();
        objects.retain(|object| !is_of_server(object));
        ObjectId::map(objects)
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
            is_reached: state.interceptor.has_happened(),
            time: self.core.now(),
        }
    }
}

/// Returns whether an object is a part of the Service `kubernetes`, which has the port of the server.
fn is_of_server(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    matches!(kind, "Service" | "Endpoints" | "EndpointSlice")
        && object["metadata"]["name"] == "kubernetes"
        && object["metadata"]["namespace"] == "default"
}
