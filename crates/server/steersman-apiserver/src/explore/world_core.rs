//! Driver: the interceptor of one world: carries out what the engine decides about each request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use steersman_auth::{MASTERS, User};
use steersman_explore::{
    Arrival, Departure, ObjectChange, ObjectId, OperatorRequest, Problem, Scenario, WorldAction,
    WorldEventKind,
};
use steersman_registry::DeleteOptions;
use tokio::sync::watch;
use tokio::time::Instant;

use super::compared_object::compared_object;
use super::error::ExploreError;
use super::host::OperatorHost;
use super::refusal::refusal;
use super::user;
use super::world_state::{WorldState, change_of, group_of, request_of};
use crate::faults::{
    ArrivalDecision, DepartureDecision, FaultGuard, History, RequestInterceptor, RequestRecord,
};
use crate::server::ApiServer;

/// The time from the end of a process to its next start, by the number of its ends. After the last one it stays away.
pub(super) const RESTARTS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// One world: its server, its operator, and what is known of both.
pub(super) struct WorldCore {
    pub(super) server: ApiServer,
    pub(super) host: Arc<dyn OperatorHost>,
    pub(super) state: Mutex<WorldState>,
    /// Grows whenever something happens that a waiting task may wait for.
    pub(super) changed: watch::Sender<u64>,
    scenario: Scenario,
    /// The last revision before the world began.
    first_revision: u64,
    began: Instant,
    silence: Mutex<Option<FaultGuard>>,
    /// The requests that are being carried out.
    carried_out: Mutex<Vec<CarriedOut>>,
}

/// A request that is being carried out.
struct CarriedOut {
    sequence: u64,
    /// The number of a write or read; `None` for other requests.
    number: Option<usize>,
    /// The object that a write is about, as it was before.
    before: Option<Value>,
}

/// The interceptor that the server calls.
pub(super) struct WorldInterceptor(pub(super) Arc<WorldCore>);

impl WorldCore {
    pub(super) fn new(
        server: ApiServer,
        host: Arc<dyn OperatorHost>,
        scenario: Scenario,
        first_revision: u64,
        state: WorldState,
    ) -> Self {
        Self {
            server,
            host,
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            scenario,
            first_revision,
            began: Instant::now(),
            silence: Mutex::new(None),
            carried_out: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the instant at a time since the start of the world.
    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    pub(super) fn tell(&self, what: WorldEventKind) {
        let now = self.now();
        self.state.lock().tell(now, what);
    }

    fn wake(&self) {
        self.changed.send_modify(|number| *number += 1);
    }

    /// Returns the objects of the server, and the records that the operator keeps outside of it.
    pub(super) fn objects(&self) -> Vec<Value> {
        let mut objects = self.server.objects();
        objects.extend(self.host.records());
        objects
    }

    /// Returns the same objects in the form in which they are compared.
    pub(super) fn compared_objects(&self) -> Vec<Value> {
        let first = self.first_revision;
        let server = &self.server;
        let mut objects =
            server.objects_as(|resource, object| compared_object(resource, object, first));
        objects.extend(self.host.records());
        objects
    }

    pub(super) async fn start_process(&self) -> Result<(), ExploreError> {
        let process = {
            let now = self.now();
            self.state.lock().note_start(now)
        };
        let user = match &self.scenario.rules.service_account {
            Some((namespace, name)) => {
                User::new(format!("system:serviceaccount:{namespace}:{name}"))
                    .group("system:serviceaccounts")
                    .group(format!("system:serviceaccounts:{namespace}"))
            }
            None => User::new("operator").group(MASTERS),
        };
        let user = user.group(group_of(process));
        let started = self.host.start(process, user).await;
        self.wake();
        started
    }

    pub(super) async fn kill_all(&self) {
        let live: Vec<usize> = self.state.lock().live.iter().copied().collect();
        for process in live {
            self.kill(process).await;
        }
    }

    async fn kill(&self, process: usize) {
        self.state.lock().interceptor.end_process(process);
        self.host.kill(process).await;
        let now = self.now();
        self.state.lock().note_end(now, process);
        self.wake();
    }

    /// Notes processes that end by themselves, and starts them again, as a kubelet does. Never returns.
    #[expect(clippy::infinite_loop, reason = "the end of the world ends the task")]
    pub(super) async fn follow_exits(&self, is_permitted: bool) {
        loop {
            let end = self.host.ended().await;
            let output = self.host.output(end.process);
            let exits = {
                let now = self.now();
                let mut state = self.state.lock();
                state.interceptor.end_process(end.process);
                state.note_end(now, end.process);
                let (how, process) = (end.how.clone(), end.process);
                let exited = WorldEventKind::Exited {
                    process,
                    how,
                    output: output.clone(),
                };
                state.tell(now, exited);
                if !is_permitted {
                    state.judge.note(Problem::Exit {
                        how: end.how.clone(),
                        output,
                    });
                }
                state.exits += 1;
                state.last_exit = Some(end.clone());
                state.exits
            };
            self.wake();
            let Some(pause) = RESTARTS.get(exits - 1) else {
                continue;
            };
            tokio::time::sleep(*pause).await;
            // A process that does not start again is missing at the end of the world.
            let _ = self.start_process().await;
        }
    }

    pub(super) async fn act(&self, actions: Vec<WorldAction>) {
        for action in actions {
            self.act_once(action).await;
            let now = self.now();
            self.state.lock().touch(now);
        }
        self.wake();
    }

    async fn act_once(&self, action: WorldAction) {
        let faults = self.server.faults();
        match action {
            WorldAction::Tell(text) => self.tell(WorldEventKind::Perturbed(text)),
            WorldAction::Kill(process) => {
                self.kill(process).await;
                // A process that does not start again is missing at the end of the world.
                let _ = self.start_process().await;
            }
            WorldAction::Pause(process) => {
                self.host.pause(process).await;
                let is_alone = {
                    let mut state = self.state.lock();
                    state.note_pause(process);
                    state.live.is_empty()
                };
                if is_alone {
                    let _ = self.start_process().await;
                }
            }
            WorldAction::Continue(process) => {
                self.state.lock().note_resume(process);
                self.host.resume(process).await;
            }
            WorldAction::SilenceWatches(resource) => {
                if resource != "*" {
                    faults.silence_watches_of(&resource);
                }
                *self.silence.lock() = Some(faults.silence_new_watches(&resource));
            }
            WorldAction::ResumeWatches => {
                drop(self.silence.lock().take());
                faults.resume_watches();
            }
            WorldAction::ExpireWatches => {
                self.server.compact();
                faults.expire_watches();
            }
            WorldAction::RestartServer => {
                self.server.restart(History::Lost);
            }
            WorldAction::Undo(id) => self.undo(&id),
            WorldAction::DeleteInGap(id) => self.delete_in_gap(&id).await,
            WorldAction::DeleteNamespace(name) => {
                self.state.lock().judge.expect_no_namespace(&name);
                // A namespace that is gone already is what the perturbation wants.
                let _ = self.server.delete("namespaces", "", &name);
            }
            WorldAction::StopWebhooks => self.server.refuse_webhooks(true),
            WorldAction::ResumeWebhooks => self.server.refuse_webhooks(false),
        }
    }

    /// Undoes the operator's last change of an object. What the server refuses, a user could not do either.
    fn undo(&self, id: &ObjectId) {
        let last = self.state.lock().last_changes.get(id).cloned();
        let Some((resource, change)) = last else {
            return;
        };
        self.state.lock().judge.after_user(id);
        match (change.before, change.after) {
            (None, Some(_)) => {
                self.delete_as_user(&resource, id);
            }
            (Some(mut before), Some(after)) => {
                let status = before
                    .as_object_mut()
                    .and_then(|object| object.remove("status"));
                before["metadata"]["resourceVersion"] = Value::Null;
                before["metadata"]["managedFields"] = Value::Null;
                let _ = self.server.update(&resource, before.clone());
                if let Some(status) = status.filter(|status| *status != after["status"]) {
                    before["status"] = status;
                    let _ = self.server.update(&format!("{resource}/status"), before);
                }
            }
            (_, None) => {}
        }
    }

    /// Deletes an object as kubectl does. What the server refuses, a user could not do either.
    fn delete_as_user(&self, resource: &str, id: &ObjectId) {
        let options = DeleteOptions {
            propagation_policy: Some(user::PROPAGATION.to_owned()),
            ..DeleteOptions::default()
        };
        let _ = self
            .server
            .delete_with(resource, &id.namespace, &id.name, &options);
    }

    /// Deletes an object while no watch delivers, and ends all watches with 410 so that no watch ever delivers the
    /// deletion. An object of the user is created again, as the user's steps so far made it.
    async fn delete_in_gap(&self, id: &ObjectId) {
        let last = self.state.lock().last_changes.get(id).cloned();
        let Some((resource, _)) = last else {
            return;
        };
        self.state.lock().judge.after_user(id);
        let faults = self.server.faults();
        let silent = faults.silence_new_watches("*");
        faults.silence_watches();
        self.delete_as_user(&resource, id);
        let begun = self.state.lock().steps_begun;
        for step in self.scenario.steps_for(id, begun) {
            let _ = user::act(&self.server, &step).await;
        }
        self.server.compact();
        faults.expire_watches();
        drop(silent);
    }

    /// Returns whether the namespace of a request is being deleted: it refuses new objects with 403, whatever the operator
    /// may do.
    fn is_namespace_ending(&self, request: &OperatorRequest) -> bool {
        let Some(name) = &request.namespace else {
            return false;
        };
        let found = self.server.get("namespaces", "", name);
        found.is_some_and(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null())
    }

    /// Returns the object that a write is about; `None` for a create, and if there is none.
    fn object_of(&self, request: &OperatorRequest) -> Option<Value> {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        self.server
            .get(&request.resource, namespace, request.name.as_deref()?)
    }

    /// Notes a request that was carried out, or that was not (`code` is `None`), and what it changed.
    fn note(
        &self,
        request: &OperatorRequest,
        number: Option<usize>,
        code: Option<u16>,
        change: Option<&ObjectChange>,
    ) {
        let (now, revision) = (self.now(), self.server.revision());
        let mut state = self.state.lock();
        state.note_departure(now, request, number, (code, revision), change.cloned());
        let has_role = self.scenario.rules.service_account.is_some();
        if code == Some(403) && has_role && !self.is_namespace_ending(request) {
            state.judge.note(Problem::Forbidden(request.to_string()));
        }
        if !request.is_write() {
            return;
        }
        let (Some(number), Some(change)) = (number, change) else {
            return;
        };
        let objects = if state.judge.needs_objects() {
            Value::Array(self.objects())
        } else {
            Value::Null
        };
        state.judge.after_write(number, Some(change), &objects);
    }
}

#[async_trait]
impl RequestInterceptor for WorldInterceptor {
    async fn arrive(&self, record: &RequestRecord) -> ArrivalDecision {
        let Some(request) = request_of(record) else {
            return ArrivalDecision::Pass;
        };
        let core = &self.0;
        let now = core.now();
        let (ruling, number) = {
            let mut state = core.state.lock();
            state.note_arrival(now, &request);
            state.interceptor.arrive(&request)
        };
        core.wake();
        self.act(ruling.actions).await;
        match ruling.verdict {
            Arrival::Pass | Arrival::PassAsOf(_) => {}
            Arrival::Refuse(code) => {
                // A refused write was not carried out, and a refused read was answered.
                let answered = (!request.verb.is_write()).then_some(code);
                core.note(&request, number, answered, None);
                return ArrivalDecision::Refuse(Box::new(refusal(code, &request)));
            }
            Arrival::Drop => {
                core.note(&request, number, None, None);
                return ArrivalDecision::Cut;
            }
            Arrival::Wait => {
                let mut changed = core.changed.subscribe();
                while !core.state.lock().interceptor.is_released(request.sequence) {
                    // The sender lives as long as the core, so waiting cannot fail.
                    let _ = changed.changed().await;
                }
            }
        }
        let before = if request.verb.is_write() {
            core.object_of(&request)
        } else {
            None
        };
        let sequence = request.sequence;
        core.carried_out.lock().push(CarriedOut {
            sequence,
            number,
            before,
        });
        match ruling.verdict {
            Arrival::PassAsOf(revision) => ArrivalDecision::PassAsOf(revision),
            _ => ArrivalDecision::Pass,
        }
    }

    async fn depart(&self, record: &RequestRecord) -> DepartureDecision {
        let Some(request) = request_of(record) else {
            return DepartureDecision::Answer;
        };
        let core = &self.0;
        let code = record.status.unwrap_or_default();
        let carried_out = {
            let mut all = core.carried_out.lock();
            let at = all.iter().position(|one| one.sequence == request.sequence);
            at.map(|at| all.swap_remove(at))
        };
        let mut change = None;
        // A request that the interceptor refused was noted when it arrived.
        if let Some(CarriedOut { number, before, .. }) = carried_out {
            if code < 400 && request.verb.is_write() {
                change = change_of(before, core.object_of(&request));
            }
            core.note(&request, number, Some(code), change.as_ref());
        }
        let revision = core.server.revision();
        let ruling = {
            let mut state = core.state.lock();
            state
                .interceptor
                .depart(&request, code, change.as_ref(), revision)
        };
        core.wake();
        self.act(ruling.actions).await;
        match ruling.verdict {
            Departure::Answer => DepartureDecision::Answer,
            Departure::Drop => DepartureDecision::Cut,
            Departure::Replace(code) => {
                DepartureDecision::Replace(Box::new(refusal(code, &request)))
            }
        }
    }
}

impl WorldInterceptor {
    /// Carries out actions to their end, even if the client disconnects meanwhile because its process is killed.
    async fn act(&self, actions: Vec<WorldAction>) {
        if actions.is_empty() {
            return;
        }
        let core = Arc::clone(&self.0);
        // A panic of an action ends its task alone, and the world goes on without the action.
        let _ = tokio::spawn(async move { core.act(actions).await }).await;
    }
}
