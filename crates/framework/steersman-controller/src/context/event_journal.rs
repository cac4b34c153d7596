//! Driver: keeps the last live events of one controller, and the steps of its running reconciles.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steersman_api::clock::now;
use steersman_client::{
    Client, ClientWait, RequestId, WaitObserver, Write, WriteObserver, WriteOutcome,
};
use steersman_object::report;

use crate::context::reason::ChangedObject;
use crate::journal::{JournalEvent, ReconcileStep, SoughtObject, StepAction};
use crate::request::{ClusterName, RequestKey, requested_object};

/// The journal of one controller, kept for its debug page. Cheap to clone; all clones are one journal.
#[derive(Clone)]
pub(crate) struct EventJournal<R> {
    events: Arc<Mutex<VecDeque<KeptEvent<R>>>>,
    pub(crate) steps: Arc<StepJournal>,
}

/// An event. Its requests are formatted only when a reader asks for them.
#[derive(Clone)]
struct KeptEvent<R> {
    at: Instant,
    changed: Arc<ChangedObject>,
    requests: Vec<R>,
    more_requests: usize,
}

/// The steps of the running reconciles of one controller, by their requests.
#[derive(Default)]
pub(crate) struct StepJournal {
    running: Mutex<RunningSteps>,
    /// Whether `running` has steps: a reconcile without steps does not wait for the lock.
    has_steps: AtomicBool,
}

#[derive(Default)]
struct RunningSteps {
    /// The writes in flight and the waits that go on.
    open: HashMap<OpenStepId, OpenStep>,
    by_request: HashMap<RequestId, KeptSteps>,
}

/// The number of a write or of a wait, each unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum OpenStepId {
    Write(u64),
    Wait(u64),
}

struct OpenStep {
    request: RequestId,
    step: ReconcileStep,
}

/// Notes what the client of one cluster does.
struct StepObserver {
    steps: Arc<StepJournal>,
    /// `None` for the manager's own cluster.
    cluster: Option<ClusterName>,
}

/// The steps of one reconcile, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptSteps {
    pub(crate) first: Vec<ReconcileStep>,
    /// The number of further steps.
    pub(crate) more: usize,
}

/// The number of events that are kept.
const MOST_EVENTS: usize = 1024;

/// The number of requests that are kept of one event.
const MOST_REQUESTS: usize = 4;

/// The number of steps that are kept of one reconcile.
const MOST_STEPS: usize = 64;

/// The number of steps in progress that are kept, and the age at which one makes room.
const MOST_OPEN: usize = 16_384;
const FORGOTTEN: Duration = Duration::from_mins(10);

/// The number of requests with steps.
const MOST_RUNNING: usize = 1024;

/// Waits that are not longer are not kept.
const SHORTEST_WAIT: Duration = Duration::from_micros(10);

/// The longest error of a write that is kept, in bytes.
const LONGEST_ERROR: usize = 1024;

impl<R: RequestKey> EventJournal<R> {
    pub(crate) fn new() -> Self {
        Self {
            events: Arc::default(),
            steps: Arc::default(),
        }
    }

    pub(crate) fn note<'a>(
        &self,
        changed: Arc<ChangedObject>,
        requests: impl ExactSizeIterator<Item = &'a R>,
    ) {
        let more_requests = requests.len().saturating_sub(MOST_REQUESTS);
        let event = KeptEvent {
            at: now(),
            changed,
            requests: requests.take(MOST_REQUESTS).cloned().collect(),
            more_requests,
        };
        let mut events = self.events.lock();
        let oldest = (events.len() >= MOST_EVENTS).then(|| events.pop_front());
        events.push_back(event);
        drop(events);
        // Dropping a request may run code of the program.
        drop(oldest);
    }

    /// Returns the kept events, oldest first: all, or those of an object and of the requests for it.
    pub(crate) fn read(&self, object: Option<SoughtObject<'_>>) -> Vec<JournalEvent> {
        let is_wanted = |event: &&KeptEvent<R>| {
            object.is_none_or(|object| {
                let mut requests = event.requests.iter().filter_map(requested_object);
                let changed = &event.changed;
                object.is(changed.cluster.as_ref(), &changed.key)
                    || requests.any(|(cluster, key)| object.is(cluster, key))
            })
        };
        let kept: Vec<KeptEvent<R>> = self
            .events
            .lock()
            .iter()
            .filter(is_wanted)
            .cloned()
            .collect();
        // Requests are formatted outside the lock, because the formatting may panic.
        kept.into_iter().map(KeptEvent::shown).collect()
    }
}

impl<R: RequestKey> KeptEvent<R> {
    fn shown(self) -> JournalEvent {
        let changed = &*self.changed;
        JournalEvent {
            at: self.at,
            kind: changed.kind.clone(),
            key: changed.key.clone(),
            cluster: changed.cluster.clone(),
            change: changed.change.as_str(),
            version: changed.version.clone(),
            requests: self
                .requests
                .iter()
                .map(|request| format!("{request:?}"))
                .collect(),
            more_requests: self.more_requests,
        }
    }
}

impl StepJournal {
    /// Returns a copy of the client of a cluster, and notes its writes and waits; `None` for the manager's own cluster.
    pub(crate) fn observe(
        self: &Arc<Self>,
        client: &Client,
        cluster: Option<ClusterName>,
    ) -> Client {
        let observer = Arc::new(StepObserver {
            steps: Arc::clone(self),
            cluster,
        });
        client
            .observed_by(Arc::clone(&observer) as Arc<dyn WriteObserver>)
            .waits_observed_by(observer)
    }

    /// Returns the steps so far of the running reconciles of wanted requests, and then those in progress.
    pub(crate) fn running(&self, wanted: impl Fn(&RequestId) -> bool) -> Vec<ReconcileStep> {
        let running = self.running.lock();
        let ended = running.by_request.iter().filter(|(id, _)| wanted(id));
        let mut steps: Vec<ReconcileStep> = ended
            .flat_map(|(_, steps)| steps.first.iter().cloned())
            .collect();
        drop(running);
        steps.extend(self.open(wanted).into_iter().map(|(_, step)| step));
        steps
    }

    /// Returns the steps in progress of wanted requests, in the order of their begins.
    pub(crate) fn open(
        &self,
        wanted: impl Fn(&RequestId) -> bool,
    ) -> Vec<(RequestId, ReconcileStep)> {
        let now = now();
        let running = self.running.lock();
        let open = running.open.values().filter(|open| wanted(&open.request));
        let mut steps: Vec<(RequestId, ReconcileStep)> = open
            .map(|open| {
                let took = now.saturating_duration_since(open.step.began);
                let step = ReconcileStep {
                    took,
                    ..open.step.clone()
                };
                (open.request.clone(), step)
            })
            .collect();
        drop(running);
        steps.sort_by_key(|(_, step)| step.began);
        steps
    }

    /// Removes and returns the steps of a reconcile that has ended.
    pub(crate) fn take(&self, request: Option<&RequestId>) -> KeptSteps {
        // A step of this reconcile was noted before it ended, by its task or by that of a write that it waited for.
        let Some(request) = request.filter(|_| self.has_steps.load(Ordering::Relaxed)) else {
            return KeptSteps::default();
        };
        let mut running = self.running.lock();
        let steps = running.by_request.remove(request).unwrap_or_default();
        self.has_steps
            .store(!running.by_request.is_empty(), Ordering::Relaxed);
        steps
    }

    fn begin(&self, id: OpenStepId, request: Option<&RequestId>, step: ReconcileStep) {
        let Some(request) = request else {
            return;
        };
        let mut running = self.running.lock();
        if running.open.len() >= MOST_OPEN {
            // A write that panics never ends.
            let now = now();
            let is_likely =
                |open: &OpenStep| now.saturating_duration_since(open.step.began) < FORGOTTEN;
            running.open.retain(|_, open| is_likely(open));
        }
        if running.open.len() >= MOST_OPEN {
            return;
        }
        let request = request.clone();
        running.open.insert(id, OpenStep { request, step });
    }

    /// Notes the end of a step: its time, and the error of a write. A step that ended at once is of no interest if it is
    /// a wait.
    fn end(&self, id: OpenStepId, took: Option<Duration>, failure: Option<String>) {
        let mut running = self.running.lock();
        let Some(OpenStep { request, mut step }) = running.open.remove(&id) else {
            return;
        };
        step.is_open = false;
        step.took = took.unwrap_or_else(|| now().saturating_duration_since(step.began));
        match &mut step.action {
            StepAction::Write { error, .. } => *error = failure,
            StepAction::Wait(_) if step.took <= SHORTEST_WAIT => return,
            StepAction::Wait(_) => {}
        }
        self.note(&mut running, &request, step);
    }

    fn note(&self, running: &mut RunningSteps, request: &RequestId, step: ReconcileStep) {
        let is_full = running.by_request.len() >= MOST_RUNNING;
        if is_full && !running.by_request.contains_key(request) {
            // Steps of a reconcile that was dropped stay until its request runs again, which a deleted object never does.
            let any = running.by_request.keys().next().cloned();
            any.and_then(|any| running.by_request.remove(&any));
        }
        let steps = running.by_request.entry(request.clone()).or_default();
        if steps.first.len() < MOST_STEPS {
            steps.first.push(step);
        } else {
            steps.more += 1;
        }
        self.has_steps.store(true, Ordering::Relaxed);
    }
}

impl WriteObserver for StepObserver {
    fn began(&self, write: &Write) {
        let step = ReconcileStep {
            began: now(),
            took: Duration::ZERO,
            is_open: true,
            action: StepAction::Write {
                verb: write.verb,
                subresource: write.subresource.clone(),
                error: None,
            },
            cluster: self.cluster.clone(),
            kind: write.kind.clone(),
            key: write.key.clone(),
        };
        self.steps
            .begin(OpenStepId::Write(write.id), write.request.as_ref(), step);
    }

    fn ended(&self, write: &Write, outcome: &WriteOutcome<'_>) {
        let error = match outcome {
            WriteOutcome::Refused(error) | WriteOutcome::Unknown(error) => {
                Some(shortened(report(*error).to_string()))
            }
            _ => None,
        };
        self.steps.end(OpenStepId::Write(write.id), None, error);
    }
}

impl WaitObserver for StepObserver {
    fn began(&self, wait: &ClientWait) {
        let step = ReconcileStep {
            began: wait.began,
            took: Duration::ZERO,
            is_open: true,
            action: StepAction::Wait(wait.cause),
            cluster: self.cluster.clone(),
            kind: wait.kind.clone(),
            key: wait.key.clone(),
        };
        self.steps
            .begin(OpenStepId::Wait(wait.id), wait.request.as_ref(), step);
    }

    fn ended(&self, wait: &ClientWait, took: Duration) {
        self.steps.end(OpenStepId::Wait(wait.id), Some(took), None);
    }
}

pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_ERROR {
        text.truncate(text.floor_char_boundary(LONGEST_ERROR));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_object::{Kind, ObjectKey, ResourceVersion};

    use super::*;
    use crate::context::reason::ObjectChange;
    use crate::request::Request;

    fn request(name: &str) -> Request {
        Request::new(ObjectKey::namespaced("shop", name))
    }

    fn changed(name: &str) -> Arc<ChangedObject> {
        Arc::new(ChangedObject {
            kind: Kind::of::<ConfigMap>(),
            key: ObjectKey::namespaced("shop", name),
            cluster: None,
            change: ObjectChange::Updated,
            version: ResourceVersion::new("7"),
        })
    }

    #[test]
    fn the_events_of_an_object_are_its_own_and_those_that_requested_it() {
        let journal = EventJournal::new();
        for number in 0..MOST_EVENTS {
            journal.note(changed(&format!("other-{number}")), [].iter());
        }
        let six: Vec<Request> = (0..6)
            .map(|number| request(&format!("r-{number}")))
            .collect();
        journal.note(changed("config"), six.iter());
        journal.note(changed("r-1"), [].iter());
        let sought = ObjectKey::namespaced("shop", "r-1");
        let sought = SoughtObject::new(&sought);
        assert!(journal.read(Some(sought.in_cluster("east"))).is_empty());
        let events = journal.read(Some(sought.in_cluster("local")));
        let shown: Vec<(&str, usize, usize)> = events
            .iter()
            .map(|event| (event.key.name(), event.requests.len(), event.more_requests))
            .collect();
        assert_eq!(shown, [("config", 4, 2), ("r-1", 0, 0)]);
        assert_eq!(events[0].requests[1], "shop/r-1");
        let all = journal.read(None);
        assert_eq!(all.len(), MOST_EVENTS);
        assert_eq!(all[0].key.name(), "other-2", "the oldest made room");
    }

    #[test]
    fn the_steps_of_a_reconcile_are_bounded_and_end_with_it() {
        let (journal, id) = (StepJournal::default(), RequestId::new("sites", 1));
        let wait = |took| ReconcileStep {
            began: now(),
            took,
            is_open: false,
            action: StepAction::Wait(steersman_client::WaitCause::LiveRead),
            cluster: None,
            kind: Kind::of::<ConfigMap>(),
            key: None,
        };
        for _ in 0..MOST_STEPS + 3 {
            let step = wait(Duration::from_secs(1));
            journal.note(&mut journal.running.lock(), &id, step);
        }
        let steps = journal.take(Some(&id));
        assert_eq!((steps.first.len(), steps.more), (MOST_STEPS, 3));
        assert!(!journal.has_steps.load(Ordering::Relaxed));
        assert!(journal.take(Some(&id)).first.is_empty());
    }

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        let text = shortened("ä".repeat(LONGEST_ERROR));
        assert!(
            text.len() < LONGEST_ERROR + 5 && text.ends_with("ä…"),
            "{}",
            text.len()
        );
    }
}
