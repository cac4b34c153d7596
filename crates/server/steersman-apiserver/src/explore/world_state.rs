//! Machine: what is known of one world: its interceptor, its judge, its story, and when the operator was last active.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use steersman_explore::{
    Interceptor, Judge, ObjectChange, ObjectId, OperatorRequest, PointCounter, Polling,
    ReferencePoints, ReferenceWrite, RequestVerb, WorldEvent, WorldEventKind,
};

use super::host::ProcessEnd;
use super::lease_holders::LeaseHolders;
use crate::faults::{RequestRecord, Verb};

/// The group that names the process of the operator that sent a request.
const PROCESS: &str = "steersman:process:";

/// The maximum number of reads that the story keeps between two writes.
const MOST_READS: usize = 40;

/// The maximum number of equal requests for one object between which the clock of a world does not advance.
const MOST_AT_ONCE: usize = 300;

/// The same maximum for requests without a name, which may be for as many objects.
const MOST_UNNAMED_AT_ONCE: usize = 5_000;

/// What is known of one world. Times count from its start.
#[derive(Debug)]
pub(super) struct WorldState {
    pub(super) interceptor: Interceptor,
    pub(super) judge: Judge,
    pub(super) events: Vec<WorldEvent>,
    pub(super) points: ReferencePoints,
    /// Each write request with its code, as texts.
    pub(super) writes: Vec<String>,
    /// The writes that changed an object, as texts.
    pub(super) changes: Vec<String>,
    /// The objects that the operator created.
    pub(super) created: BTreeSet<ObjectId>,
    /// The last change of each object by the operator, with the name of its resource.
    pub(super) last_changes: BTreeMap<ObjectId, (String, ObjectChange)>,
    /// Processes that run, and are not paused.
    pub(super) live: BTreeSet<usize>,
    pub(super) next_process: usize,
    /// The number of processes that ended by themselves.
    pub(super) exits: usize,
    /// The last process that ended by itself.
    pub(super) last_exit: Option<ProcessEnd>,
    /// The revision of the server after the last step of the user.
    pub(super) step_revision: u64,
    /// The number of steps that the user has begun.
    pub(super) steps_begun: usize,
    /// Whether an operator that does not watch is quiet only after it has read the same twice since it was last active.
    pub(super) must_poll: bool,
    /// The number of requests.
    requests: usize,
    /// Running processes that sent a request.
    asked: BTreeSet<usize>,
    /// Running processes that opened a watch.
    watching: BTreeSet<usize>,
    /// What each process has listed, read or watched, as texts.
    forms: BTreeSet<(usize, String)>,
    /// The reads since the operator was last active, as texts.
    polled: BTreeSet<String>,
    /// Whether an operator has read the same twice since it was last active.
    has_polled: bool,
    /// The processes that are paused.
    paused: BTreeSet<usize>,
    pub(super) leases: LeaseHolders,
    /// The process that is paused until another one has taken its Lease.
    displaced: Option<usize>,
    /// Whether any process has watched, so that a process without a watch is still starting.
    has_watched: bool,
    counter: PointCounter,
    active_at: Duration,
    /// When a process last started, and when one last asked or watched for the first time.
    start_at: Duration,
    started_at: Duration,
    /// The number of reads since the last write.
    reads: usize,
    /// The time of the last request.
    asked_at: Duration,
    /// The number of requests at this time, by their texts.
    at_once: BTreeMap<String, usize>,
    /// The number of requests beyond the maximum at one time.
    beyond_at_once: usize,
}

/// How far the last start of a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessStart {
    /// No process runs.
    None,
    /// No running process has shown the sign of its start since the last one started.
    Starting(Duration),
    /// A running process has shown the sign of its start.
    Started(Duration),
}

impl WorldState {
    pub(super) fn new(interceptor: Interceptor, judge: Judge) -> Self {
        Self {
            interceptor,
            judge,
            events: Vec::new(),
            points: ReferencePoints::default(),
            writes: Vec::new(),
            changes: Vec::new(),
            created: BTreeSet::new(),
            last_changes: BTreeMap::new(),
            live: BTreeSet::new(),
            next_process: 1,
            exits: 0,
            last_exit: None,
            step_revision: 0,
            steps_begun: 0,
            must_poll: true,
            requests: 0,
            asked: BTreeSet::new(),
            watching: BTreeSet::new(),
            forms: BTreeSet::new(),
            polled: BTreeSet::new(),
            has_polled: false,
            paused: BTreeSet::new(),
            leases: LeaseHolders::default(),
            displaced: None,
            has_watched: false,
            counter: PointCounter::default(),
            active_at: Duration::ZERO,
            start_at: Duration::ZERO,
            started_at: Duration::ZERO,
            reads: 0,
            asked_at: Duration::ZERO,
            at_once: BTreeMap::new(),
            beyond_at_once: 0,
        }
    }

    pub(super) fn tell(&mut self, now: Duration, what: WorldEventKind) {
        self.events.push(WorldEvent { at: now, what });
    }

    /// Notes that something happened that the operator may react to.
    pub(super) fn touch(&mut self, now: Duration) {
        self.active_at = self.active_at.max(now);
        self.polled.clear();
        self.has_polled = false;
    }

    /// Notes a request that arrived.
    pub(super) fn note_arrival(&mut self, now: Duration, request: &OperatorRequest) {
        self.count_at_once(now, request);
        let is_watch = request.verb == RequestVerb::Watch;
        self.requests += 1;
        let is_first = self.asked.insert(request.process)
            | (is_watch && self.watching.insert(request.process));
        if is_first {
            self.started_at = now;
        }
        // A process that lists or watches a resource for the first time is still starting.
        let starts = !request.verb.is_write() && request.verb != RequestVerb::Get;
        if starts && self.forms.insert((request.process, request.to_string())) {
            self.touch(now);
        }
        if request.is_read() && !self.polled.insert(request.to_string()) {
            self.has_polled = true;
            if !self.has_watched {
                self.points.polling = Polling::Repeats;
            }
        }
        self.has_watched |= is_watch;
        let writes_lease = LeaseHolders::is_write(request);
        self.points.elects |= writes_lease;
        self.leases.note_election(writes_lease);
        // An informer lists with `resourceVersion=0` if a server refuses its streaming list.
        self.points.may_be_stale |= request.is_streaming_list
            || (request.may_be_stale && !matches!(request.verb, RequestVerb::Get));
    }

    /// Notes a request that was carried out or refused. `code` is `None` if it was not carried out.
    pub(super) fn note_departure(
        &mut self,
        now: Duration,
        request: &OperatorRequest,
        number: Option<usize>,
        (code, revision): (Option<u16>, u64),
        change: Option<ObjectChange>,
    ) {
        let point = self.counter.count(request).map(|(_, point)| point);
        let is_done = code.is_some_and(|code| code < 400);
        if is_done && LeaseHolders::is_write(request) {
            self.note_lease(now, request, change.as_ref());
        }
        if !request.is_write() {
            if let Some(point) = point {
                self.points.reads.push(point);
            }
            let is_write = request.verb.is_write();
            self.reads += 1;
            if self.reads <= MOST_READS && !is_write {
                let request = request.clone();
                self.tell(now, WorldEventKind::Read { request, code });
            }
            return;
        }
        self.reads = 0;
        let text = match code {
            Some(code) => format!("{request} -> {code}"),
            None => format!("{request} -> not carried out"),
        };
        if change.is_some() {
            self.changes.push(text.clone());
        }
        self.writes.push(text);
        if change.is_some() || !is_harmless(request.verb, code) {
            self.touch(now);
        }
        if let Some(point) = point {
            let (change, step_revision) = (change.clone(), self.step_revision);
            self.points.writes.push(ReferenceWrite {
                point,
                change,
                revision,
                step_revision,
            });
        }
        if let Some(change) = &change {
            if change.before.is_none() {
                self.created.insert(change.id.clone());
            }
            let entry = (request.resource.clone(), change.clone());
            self.last_changes.insert(change.id.clone(), entry);
        }
        let request = request.clone();
        self.tell(
            now,
            WorldEventKind::Wrote {
                request,
                number,
                code,
                change,
            },
        );
    }

    /// Notes a write of a Lease that succeeded. A renewal is no activity.
    fn note_lease(
        &mut self,
        now: Duration,
        request: &OperatorRequest,
        change: Option<&ObjectChange>,
    ) {
        let taken = change.and_then(|change| self.leases.note(now, request, change));
        if let Some((holder, works_by)) = taken {
            self.touch(works_by);
            if holder.is_some() && self.displaced != holder {
                self.displaced = None;
            }
        }
    }

    /// Returns when a running process leads, at the latest.
    pub(super) fn leads_by(&self) -> Duration {
        self.leases.leads_by(&self.live)
    }

    pub(super) fn note_start(&mut self, now: Duration) -> usize {
        let process = self.next_process;
        self.next_process += 1;
        self.live.insert(process);
        self.start_at = now;
        self.touch(now);
        self.tell(now, WorldEventKind::Started { process });
        process
    }

    pub(super) fn note_end(&mut self, now: Duration, process: usize) {
        self.live.remove(&process);
        self.paused.remove(&process);
        self.leases.note_end(now);
        self.watching.remove(&process);
        self.asked.remove(&process);
        self.touch(now);
    }

    /// Notes that a process is paused. Until another one has taken its Lease, the operator is not quiet.
    pub(super) fn note_pause(&mut self, process: usize) {
        self.live.remove(&process);
        self.paused.insert(process);
        self.displaced = Some(process);
    }

    /// Notes that a process goes on, unless it has ended meanwhile.
    pub(super) fn note_resume(&mut self, process: usize) {
        if self.paused.remove(&process) {
            self.live.insert(process);
        }
        self.displaced = None;
    }

    /// Returns whether any process has sent a request.
    pub(super) fn has_asked(&self) -> bool {
        self.requests > 0
    }

    /// Returns how far the last start of a process is.
    pub(super) fn start(&self) -> ProcessStart {
        match self.idle_since() {
            _ if self.live.is_empty() => ProcessStart::None,
            Some(_) => ProcessStart::Started(self.started_at),
            None => ProcessStart::Starting(self.start_at),
        }
    }

    /// Returns when a process last started.
    pub(super) fn start_at(&self) -> Duration {
        self.start_at
    }

    /// Returns whether a process is paused, and no other has taken its Lease yet.
    pub(super) fn is_displaced(&self) -> bool {
        self.displaced.is_some()
    }

    /// Returns whether all processes have ended too often to be started again.
    pub(super) fn is_given_up(&self, most_exits: usize) -> bool {
        self.live.is_empty() && self.exits > most_exits
    }

    /// Returns whether the operator repeats a request all the time without waiting. A paused clock then stands, so that no
    /// time limit is ever reached.
    pub(super) fn never_waits(&self) -> bool {
        self.beyond_at_once > 0
    }

    fn count_at_once(&mut self, now: Duration, request: &OperatorRequest) {
        if now != self.asked_at {
            self.asked_at = now;
            self.at_once.clear();
        }
        let number = self.at_once.entry(request.to_string()).or_default();
        *number += 1;
        let most = match request.name {
            Some(_) => MOST_AT_ONCE,
            None => MOST_UNNAMED_AT_ONCE,
        };
        self.beyond_at_once += usize::from(*number > most);
    }

    /// Returns whether a process watches.
    pub(super) fn is_watching(&self) -> bool {
        self.live
            .iter()
            .any(|process| self.watching.contains(process))
    }

    /// Returns since when the operator is quiet; `None` while its processes are starting. An operator that watches has
    /// started with the first watch of one process, and one that never watches with its first request. The latter may
    /// not yet have seen what happened, so it must have read the same twice since. Where processes elect a leader, a running
    /// one must lead.
    pub(super) fn quiet_since(&self) -> Option<Duration> {
        let has_seen = self.has_watched || !self.must_poll || self.has_polled;
        self.idle_since()
            .filter(|_| has_seen && self.displaced.is_none() && self.leases.leads(&self.live))
    }

    /// Returns since when the operator has done nothing, whether it has seen the newest state or not.
    pub(super) fn idle_since(&self) -> Option<Duration> {
        let signs = if self.has_watched {
            &self.watching
        } else {
            &self.asked
        };
        let has_started = self.live.iter().any(|process| signs.contains(process));
        has_started.then_some(self.active_at)
    }
}

/// Returns whether a write that changed nothing is no sign of work: it succeeded, or it created what exists, or deleted what
/// does not.
fn is_harmless(verb: RequestVerb, code: Option<u16>) -> bool {
    match (verb, code) {
        (RequestVerb::Create, Some(409)) | (RequestVerb::Delete, Some(404)) => true,
        (_, Some(code)) => code < 400,
        (_, None) => false,
    }
}

/// Returns the group that marks the requests of a process.
pub(super) fn group_of(process: usize) -> String {
    format!("{PROCESS}{process}")
}

/// Returns a request of the operator; `None` for a request of another client, or for a document.
pub(super) fn request_of(record: &RequestRecord) -> Option<OperatorRequest> {
    let process = record
        .groups
        .iter()
        .find_map(|group| group.strip_prefix(PROCESS)?.parse().ok())?;
    let verb = match record.verb? {
        Verb::Get => RequestVerb::Get,
        Verb::List => RequestVerb::List,
        Verb::Watch => RequestVerb::Watch,
        Verb::Create => RequestVerb::Create,
        Verb::Update => RequestVerb::Update,
        Verb::Patch => RequestVerb::Patch,
        Verb::Delete => RequestVerb::Delete,
        Verb::DeleteCollection => RequestVerb::DeleteCollection,
    };
    let resource = match record.group.as_str() {
        "" => record.resource.clone(),
        group => format!("{}.{group}", record.resource),
    };
    Some(OperatorRequest {
        sequence: record.sequence,
        process,
        verb,
        resource,
        subresource: record.subresource.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        is_dry_run: record
            .parameter("dryRun")
            .is_some_and(|value| !value.is_empty()),
        may_be_stale: record.parameter("resourceVersion") == Some("0"),
        is_streaming_list: record.parameter("sendInitialEvents") == Some("true"),
    })
}

/// Returns the change of an object by a write; `None` if the write changed nothing.
pub(super) fn change_of(before: Option<Value>, after: Option<Value>) -> Option<ObjectChange> {
    let id = ObjectId::of(after.as_ref().or(before.as_ref())?);
    let version = |object: &Option<Value>| {
        object
            .as_ref()
            .map(|object| object["metadata"]["resourceVersion"].clone())
    };
    let uid = |object: &Option<Value>| {
        object
            .as_ref()
            .map(|object| object["metadata"]["uid"].clone())
    };
    let is_same = version(&before) == version(&after) && uid(&before) == uid(&after);
    (!is_same).then_some(ObjectChange { id, before, after })
}
