//! Machine: decides about each request of the operator in one world, so that each perturbation happens at its point.
//!
//! EXPLORE-1: a process that is killed at a point changes nothing later: none of its later requests is carried out.
//! EXPLORE-2: a perturbation happens at most once in a world.

use std::collections::BTreeSet;

use crate::object_id::ObjectId;
use crate::perturbation::{Perturbation, PerturbationKind};
use crate::points::{Point, PointCounter, ReferencePoints};
use crate::request::{OperatorRequest, RequestVerb, is_housekeeping};
use crate::world_event::ObjectChange;

/// Of 2^32 parts, those in which [`PerturbationKind::Throttled`] refuses a request: a third.
const THROTTLED: u64 = (1 << 32) / 3;

/// The golden ratio as a fraction of 2^64. Its multiples are spread evenly, and so is each third of them.
const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

/// The maximum number of requests that [`PerturbationKind::Throttled`] refuses.
const MOST_THROTTLED: usize = 20;

/// The interceptor of one world: each request of the operator passes it twice, before it is carried out and before it is
/// answered.
#[derive(Debug)]
pub struct Interceptor {
    armed: Vec<ArmedPerturbation>,
    counter: PointCounter,
    /// Processes that were killed, or are about to be killed.
    dead: BTreeSet<usize>,
    /// The sequence number of the request that [`PerturbationKind::TwoLeaders`] holds back, and its process, until the
    /// other leader is quiet.
    in_hand: Option<(u64, usize)>,
    /// Whether watches are silent until the next write or until the operator is quiet.
    is_silent: bool,
    /// The revision that a restarted process sees first; `None` for the newest.
    as_of: Option<u64>,
    has_webhooks_down: bool,
    /// The number of requests that throttling may refuse, and of requests that it has seen.
    throttling: Option<(usize, u64)>,
    /// The number of the last write of each request that is being carried out, by the request's sequence.
    in_flight: Vec<InFlight>,
}

#[derive(Debug)]
struct ArmedPerturbation {
    perturbation: Perturbation,
    point: Option<Point>,
    has_happened: bool,
}

/// A request that is being carried out.
#[derive(Debug)]
struct InFlight {
    sequence: u64,
    number: usize,
    /// The perturbations that happen before the request is answered.
    at_end: Vec<Perturbation>,
}

/// A request that was carried out.
struct RequestEnd<'a> {
    /// The number and the text of the request, for the story.
    point: String,
    process: usize,
    /// The code of its answer.
    code: u16,
    change: Option<&'a ObjectChange>,
    /// The newest revision of the server.
    revision: u64,
}

/// What happens with a request: first the actions, in their order, then the verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Ruling<V> {
    /// What the driver does before the verdict takes effect.
    pub actions: Vec<WorldAction>,
    /// What happens with the request.
    pub verdict: V,
}

/// What happens with a request that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The request is carried out.
    Pass,
    /// A list or watch is carried out with the state of an earlier revision.
    PassAsOf(u64),
    /// The request is not carried out, and answered with this code.
    Refuse(u16),
    /// The request is not carried out, and its connection ends once the process has ended.
    Drop,
    /// The request waits until [`Interceptor::is_released`], and is carried out then.
    Wait,
}

/// What happens with a request that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The request is answered.
    Answer,
    /// The request is answered with this code, as if it had failed.
    Replace(u16),
    /// The connection ends without an answer once the process has ended.
    Drop,
}

/// What the driver of a world does at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorldAction {
    /// Kills a process, waits for its end, and starts another one.
    Kill(usize),
    /// Pauses a process, and starts another one if no other runs.
    Pause(usize),
    /// Continues a paused process.
    Continue(usize),
    /// Silences the watches of a resource, or, with `*`, watches that open from now on.
    SilenceWatches(String),
    /// Lets all watches deliver again.
    ResumeWatches,
    /// Ends all watches with a 410.
    ExpireWatches,
    /// Restarts the server; its history is lost.
    RestartServer,
    /// Undoes the operator's last change of an object, as a user might.
    Undo(ObjectId),
    /// Deletes an object, and creates it again if the user created it, in a gap of all watches.
    DeleteInGap(ObjectId),
    /// Deletes a namespace.
    DeleteNamespace(String),
    /// Lets calls of webhooks fail.
    StopWebhooks,
    /// Lets calls of webhooks succeed again.
    ResumeWebhooks,
    /// Adds a sentence to the story of the world.
    Tell(String),
}

impl Interceptor {
    /// Creates the interceptor of a world with these perturbations, and the actions with which the world begins.
    #[must_use]
    pub fn new(
        perturbations: &[Perturbation],
        reference: Option<&ReferencePoints>,
    ) -> (Self, Vec<WorldAction>) {
        let armed = perturbations.iter().map(|perturbation| ArmedPerturbation {
            perturbation: *perturbation,
            point: reference
                .and_then(|points| points.point(perturbation))
                .cloned(),
            has_happened: false,
        });
        let mut interceptor = Self {
            armed: armed.collect(),
            counter: PointCounter::default(),
            dead: BTreeSet::new(),
            in_hand: None,
            is_silent: false,
            as_of: None,
            has_webhooks_down: false,
            throttling: None,
            in_flight: Vec::new(),
        };
        let mut actions = Vec::new();
        for armed in &mut interceptor.armed {
            match armed.perturbation.kind {
                PerturbationKind::Throttled => {
                    interceptor.throttling = Some((MOST_THROTTLED, 0));
                    actions.push(tell(
                        "a third of the requests of the operator are answered 429",
                    ));
                }
                PerturbationKind::NoWebhook => {
                    interceptor.has_webhooks_down = true;
                    actions.push(WorldAction::StopWebhooks);
                    actions.push(tell("the webhooks of the operator do not answer"));
                }
                // The driver restarts the operator once all is settled; a world that does not get there shows a problem.
                PerturbationKind::SettledRestart => {}
                _ => continue,
            }
            armed.has_happened = true;
        }
        (interceptor, actions)
    }

    /// Decides about a request that arrived. Also returns its number among the writes or among the reads; `None` for a
    /// request that is neither, and for one that was refused before it was counted.
    pub fn arrive(&mut self, request: &OperatorRequest) -> (Ruling<Arrival>, Option<usize>) {
        if self.dead.contains(&request.process) {
            return (rule(Vec::new(), Arrival::Drop), None);
        }
        if let Some(verdict) = self.throttle(request) {
            return (rule(Vec::new(), verdict), None);
        }
        let Some((number, point)) = self.counter.count(request) else {
            return (rule(Vec::new(), self.pass(request)), None);
        };
        let (mut actions, mut at_end) = (Vec::new(), Vec::new());
        let mut verdict = self.pass(request);
        for perturbation in self.due(&point, request) {
            let write = format!("write {number}, {request},");
            match perturbation.kind {
                PerturbationKind::CrashBeforeWrite => {
                    self.dead.insert(request.process);
                    actions.push(tell(format!(
                        "the operator is killed before {write} is carried out"
                    )));
                    actions.push(WorldAction::Kill(request.process));
                    verdict = Arrival::Drop;
                }
                PerturbationKind::Refuse => {
                    let code = u16::try_from(perturbation.detail).unwrap_or(500);
                    actions.push(tell(format!(
                        "{write} is not carried out, and answered {code}"
                    )));
                    verdict = Arrival::Refuse(code);
                }
                PerturbationKind::LateWatch => {
                    let resource = request.resource.clone();
                    actions.push(tell(format!(
                        "watches of {resource} deliver nothing from {write} on, until the operator has written again"
                    )));
                    actions.push(WorldAction::SilenceWatches(resource));
                    at_end.push(perturbation);
                }
                PerturbationKind::TwoLeaders => {
                    self.in_hand = Some((request.sequence, request.process));
                    actions.push(tell(format!(
                        "process {} is paused with {write} in hand; another process leads",
                        request.process
                    )));
                    actions.push(WorldAction::Pause(request.process));
                    verdict = Arrival::Wait;
                }
                _ => at_end.push(perturbation),
            }
        }
        if matches!(
            verdict,
            Arrival::Pass | Arrival::PassAsOf(_) | Arrival::Wait
        ) {
            let sequence = request.sequence;
            self.in_flight.push(InFlight {
                sequence,
                number,
                at_end,
            });
        }
        (rule(actions, verdict), Some(number))
    }

    /// Decides about a request that was carried out: `code` is the code of its answer, `change` what it changed, and
    /// `revision` the server's newest revision.
    pub fn depart(
        &mut self,
        request: &OperatorRequest,
        code: u16,
        change: Option<&ObjectChange>,
        revision: u64,
    ) -> Ruling<Departure> {
        let at = self
            .in_flight
            .iter()
            .position(|one| one.sequence == request.sequence);
        let Some(InFlight { number, at_end, .. }) = at.map(|at| self.in_flight.swap_remove(at))
        else {
            let is_dead = self.dead.contains(&request.process);
            return rule(
                Vec::new(),
                if is_dead {
                    Departure::Drop
                } else {
                    Departure::Answer
                },
            );
        };
        let mut actions = Vec::new();
        let mut verdict = Departure::Answer;
        if self.is_silent && request.is_write() && code < 400 {
            actions.extend(self.end_silence());
        }
        let kind = if request.is_read() { "read" } else { "write" };
        let end = RequestEnd {
            point: format!("{kind} {number}, {request},"),
            process: request.process,
            code,
            change,
            revision,
        };
        for perturbation in at_end {
            let ruling = self.happen(perturbation, &end);
            actions.extend(ruling.actions);
            if ruling.verdict != Departure::Answer {
                verdict = ruling.verdict;
            }
        }
        rule(actions, verdict)
    }

    /// Lets a perturbation happen at the end of its request.
    fn happen(&mut self, perturbation: Perturbation, end: &RequestEnd<'_>) -> Ruling<Departure> {
        let point = &end.point;
        match perturbation.kind {
            PerturbationKind::CrashAfterWrite | PerturbationKind::StaleRestart => {
                self.dead.insert(end.process);
                let mut actions = vec![tell(format!(
                    "the operator is killed after {point} was carried out; its answer never arrives"
                ))];
                if perturbation.kind == PerturbationKind::StaleRestart {
                    let (older, newest) = (perturbation.detail, end.revision);
                    let shown = newest.saturating_sub(older);
                    (self.as_of, self.is_silent) = (Some(shown), true);
                    actions.push(tell(format!(
                        "the next process first sees revision {shown}, {older} before the newest, {newest}"
                    )));
                    actions.push(WorldAction::SilenceWatches("*".to_owned()));
                }
                actions.push(WorldAction::Kill(end.process));
                rule(actions, Departure::Drop)
            }
            PerturbationKind::CrashAfterRead => {
                self.dead.insert(end.process);
                let told = tell(format!("the operator is killed after {point} was answered"));
                rule(vec![told, WorldAction::Kill(end.process)], Departure::Drop)
            }
            PerturbationKind::LostAnswer => {
                let told = tell(format!("{point} is carried out, and answered 504"));
                // A refused write changed nothing, and gets its refusal.
                let is_lost = end.code < 400;
                rule(
                    vec![told],
                    if is_lost {
                        Departure::Replace(504)
                    } else {
                        Departure::Answer
                    },
                )
            }
            PerturbationKind::LateWatch => {
                self.is_silent = true;
                rule(Vec::new(), Departure::Answer)
            }
            PerturbationKind::ExpiredWatch => {
                let told = tell(format!("after {point} all watches end with 410"));
                rule(vec![told, WorldAction::ExpireWatches], Departure::Answer)
            }
            PerturbationKind::ServerRestart => {
                let told = tell(format!(
                    "after {point} the server restarts, without its history"
                ));
                rule(vec![told, WorldAction::RestartServer], Departure::Answer)
            }
            kind => {
                let acted = end
                    .change
                    .and_then(|change| act_as_user(kind, point, change));
                rule(acted.map(Vec::from).unwrap_or_default(), Departure::Answer)
            }
        }
    }

    /// Returns whether a request that waits may be carried out.
    #[must_use]
    pub fn is_released(&self, sequence: u64) -> bool {
        self.in_hand.is_none_or(|(in_hand, _)| in_hand != sequence)
    }

    /// Returns the actions that release what perturbations hold back, when the operator is quiet. Empty if nothing is
    /// held back, so that the operator has nothing left to do.
    pub fn become_quiet(&mut self) -> Vec<WorldAction> {
        let mut actions = Vec::new();
        if let Some((_, process)) = self.in_hand.take() {
            actions.push(tell(format!(
                "process {process} continues, and its write arrives"
            )));
            actions.push(WorldAction::Continue(process));
        }
        if self.is_silent {
            actions.extend(self.end_silence());
        }
        if std::mem::take(&mut self.has_webhooks_down) {
            actions.push(tell("the webhooks of the operator answer again"));
            actions.push(WorldAction::ResumeWebhooks);
        }
        actions
    }

    /// Notes that a process has ended by itself: its later requests are not carried out.
    pub fn end_process(&mut self, process: usize) {
        self.dead.insert(process);
    }

    /// Returns whether every perturbation has happened.
    #[must_use]
    pub fn has_happened(&self) -> bool {
        self.armed.iter().all(|armed| armed.has_happened)
    }

    /// Returns the number of writes that arrived so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.counter.writes()
    }

    /// Returns the perturbations of this point that have not happened yet, and marks them as happened.
    fn due(&mut self, point: &Point, request: &OperatorRequest) -> Vec<Perturbation> {
        let is_read = request.is_read();
        let due = self.armed.iter_mut().filter(|armed| {
            !armed.has_happened
                && armed.perturbation.kind.is_at_read() == is_read
                && armed.point.as_ref() == Some(point)
        });
        // EXPLORE-2.
        due.map(|armed| {
            armed.has_happened = true;
            armed.perturbation
        })
        .collect()
    }

    fn pass(&self, request: &OperatorRequest) -> Arrival {
        let reads = matches!(request.verb, RequestVerb::List | RequestVerb::Watch);
        match self.as_of {
            // A streaming list has the newest state, and a server that lags may be one that does not offer it.
            Some(_) if request.is_streaming_list => Arrival::Refuse(422),
            Some(revision) if reads && request.may_be_stale => Arrival::PassAsOf(revision),
            _ => Arrival::Pass,
        }
    }

    fn end_silence(&mut self) -> Vec<WorldAction> {
        (self.is_silent, self.as_of) = (false, None);
        vec![
            tell("the watches deliver what they held back"),
            WorldAction::ResumeWatches,
        ]
    }

    fn throttle(&mut self, request: &OperatorRequest) -> Option<Arrival> {
        let (left, seen) = self.throttling.as_mut()?;
        if *left == 0 || request.verb == RequestVerb::Watch || is_housekeeping(&request.resource) {
            return None;
        }
        *seen += 1;
        // Exactly each third request would be the same one of three in each try, so that no try could succeed.
        if seen.wrapping_mul(GOLDEN_RATIO) >> 32 >= THROTTLED {
            return None;
        }
        *left -= 1;
        Some(Arrival::Refuse(429))
    }
}

/// Returns what a user does after a write; `None` for a perturbation in which no user acts.
fn act_as_user(
    kind: PerturbationKind,
    point: &str,
    change: &ObjectChange,
) -> Option<[WorldAction; 2]> {
    let id = &change.id;
    Some(match kind {
        PerturbationKind::Interfere => {
            let what = if change.before.is_some() {
                "restores it as it was"
            } else {
                "deletes it"
            };
            [
                tell(format!("after {point} a user {what}: {id}")),
                WorldAction::Undo(id.clone()),
            ]
        }
        PerturbationKind::Missed => {
            let told = tell(format!(
                "after {point} {id} is deleted while no watch is open, and created again if the user made it"
            ));
            [told, WorldAction::DeleteInGap(id.clone())]
        }
        PerturbationKind::NamespaceDeleted => {
            let namespace = id.namespace.clone();
            let told = tell(format!(
                "after {point} a user deletes the namespace {namespace}"
            ));
            [told, WorldAction::DeleteNamespace(namespace)]
        }
        _ => return None,
    })
}

fn rule<V>(actions: Vec<WorldAction>, verdict: V) -> Ruling<V> {
    Ruling { actions, verdict }
}

fn tell(text: impl Into<String>) -> WorldAction {
    WorldAction::Tell(text.into())
}

#[cfg(test)]
mod tests;
