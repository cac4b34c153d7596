//! Driver: runs the machine of one member: sends its requests, watches the group, and opens and closes the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use steersman_api::clock::{at, now};
use steersman_api::{ClientConfig, Decoded, ProblemLog, RawObject, WatchEvent, WatchStream};
use steersman_object::{ResourceVersion, ShardSlot, decode_json, report};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout_at;
use tracing::{debug, error, info, warn};

use crate::gate::ShardGate;
use crate::machine::{Holding, MemberMachine, RenewReply, ShardStep};
use crate::metrics::ShardMetrics;
use crate::options::MemberOptions;
use crate::record::MemberContent;
use crate::requests::{Listed, ShardRequests};
use crate::status::ShardStatus;

/// A command from the owner of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberCommand {
    Leave,
}

/// One member: its machine, its requests and its outputs.
pub(crate) struct MemberDriver {
    pub(crate) options: MemberOptions,
    pub(crate) client_config: ClientConfig,
    pub(crate) gate: ShardGate,
    pub(crate) metrics: Option<ShardMetrics>,
    pub(crate) published: watch::Sender<ShardStatus>,
    pub(crate) commands: mpsc::UnboundedReceiver<MemberCommand>,
    pub(crate) failures: ProblemLog,
    /// The errors of the requests that fail, by request.
    pub(crate) failing: BTreeMap<&'static str, String>,
    /// When the assignment first gave each slot that is awaited to this member.
    pub(crate) awaited: BTreeMap<ShardSlot, Instant>,
}

/// The requests in flight, at most one of each kind.
#[derive(Default)]
struct InFlight {
    renewal: Option<BoxFuture<'static, (RenewReply, Option<String>)>>,
    list: Option<BoxFuture<'static, Listed>>,
    write: Option<BoxFuture<'static, Result<(), String>>>,
    opening: Option<BoxFuture<'static, Result<WatchStream, String>>>,
    watch: Option<WatchStream>,
}

/// Closes the gate when it is dropped.
struct CloseAtEnd(ShardGate);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.set_holding(Holding::default());
    }
}

/// The pause before another attempt to make the client.
const BETWEEN_CONNECTS: Duration = Duration::from_secs(1);

impl MemberDriver {
    /// Runs the member until it has left its group.
    pub(crate) async fn run(mut self) {
        // Also after a panic, such as one in a custom clock, the work stops.
        let _closing = CloseAtEnd(self.gate.clone());
        let Some(requests) = self.connect().await else {
            return;
        };
        let (group, member) = (
            self.options.group.name().to_owned(),
            self.options.member.name().to_owned(),
        );
        let given = &self.options.given;
        let (timing, seed) = (given.timing, given.seed);
        let named = (&*group, &*member, &*given.by.division());
        let mut machine = MemberMachine::new(named, timing, seed, now());
        let mut in_flight = InFlight::default();
        loop {
            self.gate.set_holding(machine.holding(now()));
            machine.handle_busy(self.gate.busy());
            self.publish(&machine);
            match machine.next_step(now()) {
                ShardStep::End => break,
                ShardStep::Renew(content, version, limit) => {
                    let late = || (RenewReply::Failed, Some(LATE.to_owned()));
                    let sent = requests.clone().renew(content, version);
                    in_flight.renewal = Some(in_time(limit, sent, late));
                }
                ShardStep::List(limit) => {
                    let sent = requests.clone().list();
                    in_flight.list = Some(in_time(limit, sent, || Err(LATE.to_owned())));
                }
                ShardStep::Write(write, limit) => {
                    debug!(group, ?write, "this replica assigns the shards");
                    let sent = requests.clone().write(write);
                    in_flight.write = Some(in_time(limit, sent, || Err(LATE.to_owned())));
                }
                ShardStep::Wait(until) => {
                    self.wait(&mut machine, &mut in_flight, &requests, until)
                        .await;
                }
            }
        }
        info!(group, member, "this replica has left the group");
    }

    async fn connect(&mut self) -> Option<ShardRequests> {
        loop {
            match ShardRequests::connect(&self.client_config, &self.options).await {
                Ok(requests) => {
                    self.log_failure("connect", None);
                    return Some(requests);
                }
                Err(error) => self.log_failure("connect", Some(report(&error).to_string())),
            }
            tokio::select! {
                biased;
                _ = self.commands.recv() => return None,
                () = tokio::time::sleep(BETWEEN_CONNECTS) => {}
            }
        }
    }

    /// Waits for the next reply, change, command or timer, and passes it to the machine.
    async fn wait(
        &mut self,
        machine: &mut MemberMachine,
        in_flight: &mut InFlight,
        requests: &ShardRequests,
        until: Instant,
    ) {
        let must_end = self.options.given.aborts && self.gate.is_working();
        let overrun = machine.overrun_at().filter(|_| must_end);
        if overrun.is_some_and(|at| at <= now()) {
            self.abort();
        }
        tokio::select! {
            biased;
            command = self.commands.recv() => match command {
                Some(MemberCommand::Leave) => machine.leave(),
                // The owner is dropped: the Lease expires.
                None => machine.abandon(),
            },
            (reply, failure) = reply_of(&mut in_flight.renewal) => {
                self.log_failure("renew", failure);
                machine.handle_renewed(reply, now());
            }
            listed = reply_of(&mut in_flight.list) => match listed {
                Ok((snapshot, version)) => {
                    self.log_failure("list", None);
                    machine.handle_listed(Some(snapshot), now());
                    in_flight.open_watch(requests, version);
                }
                Err(failure) => {
                    self.log_failure("list", Some(failure));
                    machine.handle_listed(None, now());
                }
            },
            written = reply_of(&mut in_flight.write) => {
                let is_done = written.is_ok();
                self.log_failure("assign", written.err());
                machine.handle_written(is_done, now());
            }
            opened = reply_of(&mut in_flight.opening) => match opened {
                Ok(watch) => {
                    self.log_failure("watch", None);
                    in_flight.watch = Some(watch);
                }
                // The next list opens another watch.
                Err(failure) => self.log_failure("watch", Some(failure)),
            },
            event = next_event(&mut in_flight.watch) => match event {
                Some(event) => if is_news(machine, &event) {
                    machine.handle_notice();
                },
                None => in_flight.watch = None,
            },
            () = self.gate.drained() => {}
            () = at(Some(overrun.map_or(until, |at| at.min(until)))) => {}
        }
    }

    /// SHARD-3: a reconcile that does not end would run beside that of another replica.
    fn abort(&self) {
        error!(
            group = self.options.group.name(),
            slots = %self.gate.busy(),
            "a reconcile still runs after the loss of this replica's Lease, and another replica may take its shard soon: the process aborts"
        );
        std::process::abort();
    }

    /// Records whether a request has failed. Logs its error as a warning if it is new, and then once a minute while it lasts.
    fn log_failure(&mut self, request: &'static str, failure: Option<String>) {
        let group = self.options.group.to_string();
        let Some(failure) = failure else {
            if self.failing.remove(request).is_some() {
                self.publish_error();
            }
            return;
        };
        if self.failures.is_due(request, &failure, now()) {
            warn!(
                group,
                request,
                error = failure,
                "a request of the shards fails, and this replica stops its work at the renew deadline unless it succeeds"
            );
        }
        self.failing.insert(request, failure);
        self.publish_error();
    }

    fn last_error(&self) -> Option<String> {
        self.failing.values().next().cloned()
    }

    fn publish_error(&self) {
        let error = self.last_error();
        self.published.send_if_modified(|status| {
            std::mem::replace(&mut status.last_error, error.clone()) != error
        });
    }

    /// Publishes the state of the machine, and reports changes to the log and the metrics.
    fn publish(&mut self, machine: &MemberMachine) {
        let before = self.published.borrow().clone();
        let after = machine.status(now());
        if after.is_same_as(&before) {
            return;
        }
        self.note_handover(&before, &after);
        let group = &after.group;
        if let Some(metrics) = &self.metrics {
            metrics.set(group, &before.owned, &after.owned, after.members.len());
        }
        let (gained, released) = (
            after.owned.difference(&before.owned),
            before.owned.difference(&after.owned),
        );
        if !gained.is_empty() || !released.is_empty() {
            info!(
                group,
                generation = after.generation,
                members = after.members.len(),
                gained = gained.len(),
                released = released.len(),
                owned = %after.owned,
                "the shards of this replica have changed"
            );
        }
        if let Some(other) = &after.other_division
            && before.other_division.is_none()
        {
            warn!(
                group,
                own = after.division,
                other,
                "the replicas of the group divide the objects in another way: this replica gets no shards until those have left"
            );
        }
        if before.is_renewed && !after.is_renewed && !before.owned.is_empty() {
            error!(
                group,
                "the Lease of this replica was not renewed in time: its reconciles stop until it is renewed"
            );
        }
        let last_error = self.last_error();
        self.published.send_replace(ShardStatus {
            last_error,
            ..after
        });
    }

    /// Measures how long this member waited for the former owners of its slots.
    fn note_handover(&mut self, before: &ShardStatus, after: &ShardStatus) {
        let now = now();
        for slot in after.awaited.difference(&before.awaited).iter() {
            self.awaited.entry(slot).or_insert(now);
        }
        let gained = after.owned.difference(&before.owned);
        // Slots that were gained together count once.
        let times: BTreeSet<Duration> = gained
            .iter()
            .map(|slot| {
                let since = self.awaited.remove(&slot).unwrap_or(now);
                now.saturating_duration_since(since)
            })
            .collect();
        self.awaited.retain(|slot, _| after.awaited.contains(*slot));
        if let Some(metrics) = &self.metrics {
            for time in times {
                metrics.handed_over(&after.group, time);
            }
        }
    }
}

const LATE: &str = "no response in time";

impl InFlight {
    /// Opens a watch for the changes after a list, unless one is open.
    fn open_watch(&mut self, requests: &ShardRequests, version: ResourceVersion) {
        if self.watch.is_none() && self.opening.is_none() {
            self.opening = Some(Box::pin(requests.clone().watch(version)));
        }
    }
}

/// Returns the reply to a request, or that of a late request if there is none by the limit (LEASE-6).
fn in_time<T: Send + 'static>(
    limit: Instant,
    request: impl Future<Output = T> + Send + 'static,
    late: impl FnOnce() -> T + Send + 'static,
) -> BoxFuture<'static, T> {
    Box::pin(async move {
        let reply = timeout_at(limit.into(), request).await;
        reply.unwrap_or_else(|_| late())
    })
}

/// Waits for a reply, and removes its request; never ends without a request. Cancel safe.
async fn reply_of<T>(request: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(sent) = request else {
        return pending().await;
    };
    let reply = sent.await;
    *request = None;
    reply
}

/// Waits for the next event of a watch; `None` at its end. Never ends without a watch. Cancel safe.
async fn next_event(watch: &mut Option<WatchStream>) -> Option<WatchEvent> {
    let Some(watch) = watch else {
        return pending().await;
    };
    match watch.next().await {
        Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => None,
        Some(Ok(event)) => Some(event),
    }
}

/// Returns whether an event shows more than the renewal of a known Lease, which the next list shows in time.
fn is_news(machine: &MemberMachine, event: &WatchEvent) -> bool {
    let lease = |object: &Decoded<RawObject>| -> Option<Lease> {
        let Decoded::Good(object) = object else {
            return None;
        };
        decode_json(object.json(), false).ok()
    };
    let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
        return matches!(event, WatchEvent::Deleted(_));
    };
    let Some(lease) = lease(object) else {
        return true;
    };
    let name = lease.metadata.name.clone().unwrap_or_default();
    let known = machine.snapshot().members.get(&name);
    known.is_none_or(|known| known.content != MemberContent::of(&lease))
}
