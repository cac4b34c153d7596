//! Driver: runs the machine of one candidate: sends its requests, waits for its timers, and passes on commands.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use k8s_openapi::api::coordination::v1::Lease;
use steersman_api::clock::{at, now};
use steersman_api::{Api, ProblemLog};
use steersman_object::{panic_text, report};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout_at;
use tracing::{debug, error, info, warn};

use crate::abort::abort;
use crate::machine::{
    CandidateStatus, Command, ElectionMachine, ElectionStep, LeaseRequest, Published, Reply,
};
use crate::metrics::ElectionMetrics;
use crate::options::ElectionOptions;
use crate::requests::LeaseRequests;
use crate::status::{ElectionChange, Ending, LossReason};

type RequestInFlight = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// One candidate: its machine, its requests and its outputs.
pub(crate) struct ElectionDriver {
    pub(crate) options: ElectionOptions,
    pub(crate) requests: LeaseRequests,
    pub(crate) metrics: Option<ElectionMetrics>,
    pub(crate) published: watch::Sender<Published>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    /// A success does not end a problem, because a candidate may be able to read the Lease and not to write it.
    pub(crate) failures: ProblemLog,
}

impl ElectionDriver {
    /// Logs a failed request as a warning if its error is new, and then once a minute while the error lasts.
    fn log_failure(&mut self, reply: &Reply) {
        let lease = &self.options.key;
        match reply {
            Reply::Failed(error) if self.failures.is_due("lease", error, now()) => warn!(
                %lease,
                error,
                "requests of the leader election fail, and this replica cannot lead until they succeed"
            ),
            Reply::Failed(error) => {
                debug!(%lease, error, "a request of the leader election failed again");
            }
            Reply::Outdated(error) => {
                debug!(%lease, error, "the lease has changed meanwhile");
            }
            Reply::Lease(_) | Reply::Absent => {}
        }
    }

    /// Runs the candidate until its election ends. A panic, such as one in a custom clock, counts as a loss.
    pub(crate) async fn run(mut self) {
        let panic = {
            let mut election = pin!(self.elect());
            poll_fn(|cx| {
                // The future is not polled again after a panic.
                match catch_unwind(AssertUnwindSafe(|| election.as_mut().poll(cx))) {
                    Ok(polled) => polled.map(|()| None),
                    Err(payload) => Poll::Ready(Some(panic_text(&*payload).to_owned())),
                }
            })
            .await
        };
        if let Some(panic) = panic {
            self.end_after_panic(&panic).await;
        }
    }

    /// Reports the loss after a panic, and aborts the process if work does not end (LEASE-4).
    async fn end_after_panic(&mut self, panic: &str) {
        let reason = LossReason::ElectorEnded;
        let mut lost = self.published.borrow().clone();
        let was_leader = matches!(lost.standing, CandidateStatus::Leader(_));
        let work_ends = match lost.standing {
            CandidateStatus::Leader(until) => Some(until.min(now())),
            CandidateStatus::Lost(_) => Some(now()),
            CandidateStatus::Standby | CandidateStatus::Ended(_) => None,
        };
        let given = &self.options.given;
        let work_ends = work_ends.filter(|_| given.aborts);
        let mut abort_at = work_ends.map(|at| at + given.timing.stop_limit());
        lost.standing = CandidateStatus::Lost(Some(reason.clone()));
        lost.work_limit = abort_at;
        self.published.send_replace(lost.clone());
        if let Some(metrics) = &self.metrics {
            metrics.set(self.options.key.name(), false, 0);
        }
        let lease = self.options.key.to_string();
        error!(
            lease,
            panic, "the elector panicked: this replica leads no more"
        );
        if was_leader {
            let identity = self.options.identity.clone();
            self.report(&ElectionChange::Lost { identity, reason });
        }
        loop {
            match next(&mut self.commands, abort_at, None).await {
                Some(Command::LeaveBehind) => {}
                Some(Command::Release | Command::Abandon) => break,
                None => {
                    abort_at = None;
                    lost.work_limit = None;
                    self.published.send_replace(lost.clone());
                    abort(&self.options);
                }
            }
        }
        // The Lease is not released, because the state of the last request is unknown.
        lost.work_limit = None;
        lost.standing = CandidateStatus::Ended(Ending::Kept);
        self.published.send_replace(lost);
    }

    async fn elect(&mut self) {
        let options = self.options.clone();
        let mut machine = ElectionMachine::new(&options, now());
        let mut in_flight: Option<RequestInFlight> = None;
        let mut api: Option<Api<Lease>> = None;
        loop {
            let step = machine.next_step(now(), (options.given.clock)());
            self.publish(&machine);
            match step {
                ElectionStep::End(_) => return,
                ElectionStep::Abort => match self.commands.try_recv() {
                    // Work has ended while the thread of the elector was blocked.
                    Ok(command @ (Command::Release | Command::Abandon)) => {
                        self.carry_out(&mut machine, Some(command));
                    }
                    Err(TryRecvError::Disconnected) => {
                        self.carry_out(&mut machine, Some(Command::Abandon));
                    }
                    Ok(Command::LeaveBehind) | Err(TryRecvError::Empty) => abort(&self.options),
                },
                ElectionStep::Wait(until) => {
                    in_flight = None;
                    let command = next(&mut self.commands, until, machine.works_from(now())).await;
                    self.carry_out(&mut machine, command);
                }
                ElectionStep::Send(request, deadline) => {
                    if api.is_none() {
                        api = self.connect(deadline, &mut machine).await;
                    }
                    if let Some(api) = &api {
                        let requests = self.requests.clone();
                        in_flight = Some(send(requests, api.clone(), request, deadline));
                    }
                }
                ElectionStep::AwaitReply => {
                    let Some(request) = &mut in_flight else {
                        // Unreachable: the machine awaits replies only after it has sent a request.
                        machine.on_reply(Reply::Failed("no request was sent".to_owned()), now());
                        continue;
                    };
                    let works_from = machine.works_from(now());
                    tokio::select! {
                        biased;
                        reply = request => {
                            in_flight = None;
                            self.log_failure(&reply);
                            machine.on_reply(reply, now());
                        }
                        command = next(&mut self.commands, None, works_from) => {
                            self.carry_out(&mut machine, command);
                        }
                    }
                }
            }
        }
    }

    /// Makes the client, within the deadline of the first request. A failure counts as a failure of that request.
    async fn connect(
        &mut self,
        deadline: Instant,
        machine: &mut ElectionMachine,
    ) -> Option<Api<Lease>> {
        let problem = match timeout_at(deadline.into(), self.requests.connect()).await {
            Ok(Ok(api)) => return Some(api),
            Ok(Err(error)) => report(&error).to_string(),
            Err(_) => "the client was not ready in time".to_owned(),
        };
        let reply = Reply::Failed(problem);
        self.log_failure(&reply);
        machine.on_reply(reply, now());
        None
    }

    fn carry_out(&self, machine: &mut ElectionMachine, command: Option<Command>) {
        if let Some(command) = command {
            debug!(lease = %self.options.key, ?command, "the elector was told");
            machine.on_command(command, now());
        }
    }

    /// Publishes the state of the machine, and reports changes to the log, the metrics and the hook.
    fn publish(&self, machine: &ElectionMachine) {
        let before = self.published.borrow().clone();
        let after = machine.published(now());
        if let Some(metrics) = &self.metrics {
            let is_leader = matches!(after.standing, CandidateStatus::Leader(_));
            metrics.set(self.options.key.name(), is_leader, machine.slow_paths);
        }
        // The state is published before the hook is called, because the hook may read it.
        self.published.send_replace(after.clone());
        for change in self.changes(&before, &after) {
            self.report(&change);
        }
    }

    fn changes(&self, before: &Published, after: &Published) -> Vec<ElectionChange> {
        let identity = self.options.identity.clone();
        let holder = |published: &Published| {
            let holder = published.record.as_ref().map(|record| &record.holder);
            holder.filter(|holder| !holder.is_empty()).cloned()
        };
        let mut changes = Vec::new();
        let next = holder(after);
        if holder(before) != next && next.as_ref() != Some(&identity) {
            changes.push(ElectionChange::NewHolder { holder: next });
        }
        let led = matches!(before.standing, CandidateStatus::Leader(_));
        match &after.standing {
            CandidateStatus::Leader(_) if !led => {
                changes.push(ElectionChange::Elected { identity })
            }
            CandidateStatus::Lost(Some(reason)) if before.standing != after.standing => {
                let reason = reason.clone();
                changes.push(ElectionChange::Lost { identity, reason });
            }
            CandidateStatus::Ended(Ending::Released) if before.standing != after.standing => {
                changes.push(ElectionChange::Released { identity });
            }
            _ => {}
        }
        changes
    }

    fn report(&self, change: &ElectionChange) {
        let lease = self.options.key.to_string();
        match change {
            ElectionChange::NewHolder {
                holder: Some(holder),
            } => info!(lease, holder, "the lease has another holder"),
            ElectionChange::NewHolder { holder: None } => {
                info!(
                    lease,
                    "the lease has no holder: the next candidate takes it"
                );
            }
            ElectionChange::Elected { identity } => {
                info!(lease, identity, "this replica leads");
            }
            ElectionChange::Lost { identity, reason } => {
                error!(lease, identity, %reason, "this replica lost the lease: its work stops");
            }
            ElectionChange::Released { identity } => {
                info!(lease, identity, "the lease was released");
            }
        }
        // MGR-7: a panic of the hook does not end the election.
        if let Some(hook) = &self.options.given.on_change
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(change)))
        {
            let panic = panic_text(&*payload);
            error!(
                lease,
                panic,
                "the hook of the leader election panicked; the election goes on: correct the hook"
            );
        }
    }
}

/// Sends a request. LEASE-6: the deadline covers all of it, from the connection to the end of the response.
fn send(
    requests: LeaseRequests,
    api: Api<Lease>,
    request: LeaseRequest,
    deadline: Instant,
) -> RequestInFlight {
    Box::pin(async move {
        let sent = timeout_at(deadline.into(), requests.send(&api, request)).await;
        sent.unwrap_or_else(|_| Reply::Failed("no response in time".to_owned()))
    })
}

/// Waits for a command; `None` if one of the instants comes first. Cancel safe.
async fn next(
    commands: &mut mpsc::UnboundedReceiver<Command>,
    until: Option<Instant>,
    works_from: Option<Instant>,
) -> Option<Command> {
    let until = until.into_iter().chain(works_from).min();
    tokio::select! {
        biased;
        command = commands.recv() => Some(command.unwrap_or(Command::Abandon)),
        () = at(until) => None,
    }
}
