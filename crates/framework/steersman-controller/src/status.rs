//! Handle: shows the state of one controller: the kinds that it waits for, its progress, and failures of its handlers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{Cache, Unsynced};
use steersman_object::{Kind, ObjectKey};
use steersman_workqueue::{KeyReport, QueueReport};

use crate::journal::recent::RecentReconcile;
use crate::journal::{
    ErrorGroup, Inside, JournalEvent, LoopReport, ReconcileRate, ReconcileStep, SoughtObject,
};
use crate::request::ClusterName;

/// The status of one controller. Cheap to clone; all clones show the same controller.
///
/// [`Controller::status`](crate::Controller::status) creates it. It can be read at any time: before
/// the start, while the controller runs, and after its end.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "ControllerStatus {{ controller: {:?}, waiting: {:?}, handler_panics: {:?}, .. }}",
    shared.controller, self.is_waiting(), self.handler_panics()
)]
#[must_use]
pub struct ControllerStatus {
    shared: Arc<StatusShared>,
}

/// A failure that lost one event (CTRL-6): a panic of a predicate, a handler or a filter, or an error of an
/// asynchronous handler, such as [`handler::mapped_async`](crate::handler::mapped_async()).
///
/// `Display` prints one line, although a panic message may have several (`assert_eq!` writes three).
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{kind} {key}: {}", message.split_whitespace().collect::<Vec<_>>().join(" "))]
#[non_exhaustive]
pub struct HandlerFailure {
    /// The kind of the watched objects.
    pub kind: Kind,
    /// The position of the watch among the sources of the controller, from 0: first the watches of
    /// [`Controller::kinds`](crate::Controller::kinds), then the watches of other clusters, then all other sources,
    /// each group in the order of the declarations.
    pub watch: usize,
    /// The cluster of the object; `None` for the manager's own cluster.
    pub cluster: Option<ClusterName>,
    /// The namespace and name of the object of the event.
    pub key: ObjectKey,
    /// The text of the panic, or the error with its causes.
    pub message: String,
}

/// The numbers of processed and waiting keys of one controller; see [`ControllerStatus::work`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkProgress {
    /// The number of workers.
    pub workers: usize,
    /// The number of ready keys in the queue.
    pub ready: usize,
    /// The number of reconciles in progress.
    pub running: usize,
    /// The number of keys that workers have taken.
    pub taken: u64,
    /// The number of reconciles that have ended.
    pub finished: u64,
    /// The longest time that a reconcile may take: its deadline and the grace after it; `None` without a deadline.
    pub longest_reconcile: Option<Duration>,
    /// Whether free workers wait for permits of a [`ReconcileLimit`](crate::ReconcileLimit) of several controllers.
    pub waits_for_permit: bool,
}

struct StatusShared {
    controller: String,
    state: Mutex<StatusState>,
}

pub(crate) type ReadProgress = Arc<dyn Fn() -> WorkProgress + Send + Sync>;

type ReadRecent = Arc<dyn Fn() -> Vec<RecentReconcile> + Send + Sync>;

#[derive(Default)]
pub(crate) struct StatusState {
    /// The kinds that the controller waits for; `None` if it does not wait for first syncs.
    awaited: Option<Awaited>,
    /// Reads the counts of the workers and the queue; `None` while no workers run.
    progress: Option<ReadProgress>,
    /// Reads the last reconciles; `None` before the start of the controller. Stays after the end of the controller, so
    /// that its last reconciles can still be read.
    recent: Option<ReadRecent>,
    /// Reads the queue and the journal; `None` while the controller does not run.
    inside: Option<Arc<dyn Inside>>,
    panics: u64,
    last_panic: Option<HandlerFailure>,
    /// The keys of the objects that were paused when a request for them ran; `None` if the controller declares no
    /// pause.
    paused: Option<BTreeSet<ObjectKey>>,
    /// The cached objects of the primary kind, so that a deleted object is not shown as paused; set while the
    /// controller runs.
    primary: Option<PrimaryObjects>,
    errors: u64,
    last_error: Option<HandlerFailure>,
}

pub(crate) struct Awaited {
    cache: Cache,
    kinds: Vec<Kind>,
}

#[derive(Clone)]
pub(crate) struct PrimaryObjects {
    cache: Cache,
    kind: Kind,
}

/// Keeps a value in the status until the guard is dropped. `place` returns the field of the value.
#[must_use]
pub(crate) struct StatusGuard<T> {
    status: ControllerStatus,
    place: fn(&mut StatusState) -> &mut Option<T>,
}

impl ControllerStatus {
    pub(crate) fn new(controller: impl Into<String>) -> Self {
        Self {
            shared: Arc::new(StatusShared {
                controller: controller.into(),
                state: Mutex::default(),
            }),
        }
    }

    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Returns whether the controller was started and waits for the first sync of a watched kind.
    pub fn is_waiting(&self) -> bool {
        self.shared.state.lock().awaited.is_some()
    }

    /// Returns the informers that a [waiting](Self::is_waiting) controller waits for, with the reason and the remedy.
    /// Empty if the controller does not wait, or if all kinds have synced and the workers are about to start.
    pub fn waiting_for(&self) -> Vec<Unsynced> {
        let (cache, kinds) = match &self.shared.state.lock().awaited {
            Some(awaited) => (awaited.cache.clone(), awaited.kinds.clone()),
            None => return Vec::new(),
        };
        // The cache is read outside the lock of the status, because reading takes the locks of the cache.
        kinds.iter().flat_map(|kind| cache.unsynced(kind)).collect()
    }

    /// Returns the counts of the workers and the queue; `None` before the first syncs, and after the controller was
    /// told to stop.
    pub fn work(&self) -> Option<WorkProgress> {
        let read = self.shared.state.lock().progress.clone();
        // The queue is read outside the lock of the status, because reading takes the lock of the queue.
        read.map(|read| read())
    }

    /// Returns the last reconciles that have ended, oldest first: up to 64. Empty before the controller starts.
    pub fn recent(&self) -> Vec<RecentReconcile> {
        let read = self.shared.state.lock().recent.clone();
        // The reconciles are read outside the lock of the status, because reading formats requests.
        read.map(|read| read()).unwrap_or_default()
    }

    /// Reads the running controller; returns the default if it does not run.
    fn inside<T: Default>(&self, read: impl FnOnce(&dyn Inside) -> T) -> T {
        // Copied, because reading takes other locks and formats requests.
        let inside = self.shared.state.lock().inside.clone();
        inside.map(|inside| read(&*inside)).unwrap_or_default()
    }

    /// Returns the numbers of held, ready and delayed requests, and at most `most` requests of each state, as texts; `None`
    /// unless the controller runs.
    ///
    /// Made for people: it visits every waiting request under the lock of the queue.
    pub fn queue(&self, most: usize) -> Option<QueueReport<String>> {
        self.inside(|inside| Some(inside.queue(most)))
    }

    /// Returns the state of the request for an object, of one of the clusters if there are several; `None` if the queue does
    /// not hold it, and for requests of a type of the program.
    pub fn request_of(&self, object: SoughtObject<'_>) -> Option<KeyReport<String>> {
        self.inside(|inside| inside.find(object))
    }

    /// Returns the last reconciles, newest first, at most `most`: of all requests, or of those for `object`. Empty unless the
    /// controller runs.
    pub fn last_reconciles(
        &self,
        object: Option<SoughtObject<'_>>,
        most: usize,
    ) -> Vec<RecentReconcile> {
        self.inside(|inside| inside.recent(object, most))
    }

    /// Returns the writes and waits so far of the running reconcile of an object, those in progress last. Empty without a
    /// [journal](crate::StartContext::journal).
    pub fn running_steps(&self, object: SoughtObject<'_>) -> Vec<ReconcileStep> {
        self.inside(|inside| inside.running_steps(object))
    }

    /// Returns the writes and waits in progress, each with the request of its reconcile as text. Empty without a
    /// [journal](crate::StartContext::journal).
    pub fn open_steps(&self) -> Vec<(String, ReconcileStep)> {
        self.inside(|inside| inside.open_steps())
    }

    /// Returns the last live events of the watches, oldest first: up to 1,024, or those of `object` and of requests for it
    /// among these. Empty without [`StartContext::journal`](crate::StartContext::journal).
    pub fn events(&self, object: Option<SoughtObject<'_>>) -> Vec<JournalEvent> {
        self.inside(|inside| inside.events(object))
    }

    /// Returns the failures by message, the last one first: up to 32 messages. Failures with messages that differ only in numbers
    /// and in the names of their requests count as one. Empty without a [journal](crate::StartContext::journal).
    pub fn errors(&self) -> Vec<ErrorGroup> {
        self.inside(|inside| inside.errors())
    }

    /// Returns the message of the last failure of each of these requests, which are texts as in
    /// [`queue`](Self::queue); `None` if it is not among the last ones. Empty unless the controller runs.
    pub fn last_failures(&self, requests: &[String]) -> Vec<Option<String>> {
        self.inside(|inside| inside.last_failures(requests))
    }

    /// Returns the slowest reconciles of the last hour, the slowest first: up to 16. Empty without a
    /// [journal](crate::StartContext::journal).
    pub fn slowest(&self) -> Vec<RecentReconcile> {
        self.inside(|inside| inside.slowest())
    }

    /// Returns the last warnings about requests that trigger themselves (CTRL-24), the newest last: up to 16.
    pub fn loops(&self) -> Vec<LoopReport> {
        self.inside(|inside| inside.loops())
    }

    /// Returns the number of reconciles of the last minute; zero without a [journal](crate::StartContext::journal).
    pub fn rate(&self) -> ReconcileRate {
        self.inside(|inside| inside.rate())
    }

    /// Shows the queue and the journal until the returned guard is dropped.
    pub(crate) fn shows_inside(&self, inside: Arc<dyn Inside>) -> StatusGuard<Arc<dyn Inside>> {
        self.show(|state| &mut state.inside, inside)
    }

    /// Returns the number of events lost to panics of predicates, handlers and filters since the start.
    pub fn handler_panics(&self) -> u64 {
        self.shared.state.lock().panics
    }

    /// Returns the last panic of a predicate, handler or filter since the start; `None` if there was no panic.
    pub fn last_handler_panic(&self) -> Option<HandlerFailure> {
        self.shared.state.lock().last_panic.clone()
    }

    /// Returns the number of events lost to errors of asynchronous handlers since the start.
    pub fn handler_errors(&self) -> u64 {
        self.shared.state.lock().errors
    }

    /// Returns the last error of an asynchronous handler since the start; `None` if there was no error.
    pub fn last_handler_error(&self) -> Option<HandlerFailure> {
        self.shared.state.lock().last_error.clone()
    }

    pub(crate) fn handler_failed(&self, error: HandlerFailure) {
        let mut state = self.shared.state.lock();
        state.errors = state.errors.saturating_add(1);
        state.last_error = Some(error);
    }

    pub(crate) fn handler_panicked(&self, panic: HandlerFailure) {
        let mut state = self.shared.state.lock();
        state.panics = state.panics.saturating_add(1);
        state.last_panic = Some(panic);
    }

    /// Returns the keys of the objects that [`pause_when`](crate::ControllerBuilder::pause_when) keeps from the
    /// reconciler, sorted. An object is listed from the first request for it since the start.
    pub fn paused_objects(&self) -> Vec<ObjectKey> {
        self.forget_absent_paused();
        let state = self.shared.state.lock();
        state.paused.iter().flatten().cloned().collect()
    }

    /// Returns the number of paused objects; `None` if the controller declares no pause.
    pub(crate) fn paused_count(&self) -> Option<usize> {
        self.forget_absent_paused();
        let state = self.shared.state.lock();
        state.paused.as_ref().map(BTreeSet::len)
    }

    pub(crate) fn pauses(&self) {
        self.shared.state.lock().paused.get_or_insert_default();
    }

    /// Records that an object is paused. Returns whether this is new, so that the pause is logged once.
    pub(crate) fn paused(&self, key: &ObjectKey) -> bool {
        let mut state = self.shared.state.lock();
        state.paused.get_or_insert_default().insert(key.clone())
    }

    /// Records that an object is not paused. Returns whether it was paused, so that the end of the pause is logged
    /// once.
    pub(crate) fn resumed(&self, key: &ObjectKey) -> bool {
        let mut state = self.shared.state.lock();
        state.paused.get_or_insert_default().remove(key)
    }

    /// Forgets the paused objects that the cache does not hold, because an object can disappear without a request: a
    /// filter refuses its delete, or its namespace was removed from the cache.
    fn forget_absent_paused(&self) {
        let (primary, mut absent) = {
            let state = self.shared.state.lock();
            match (&state.primary, &state.paused) {
                (Some(primary), Some(paused)) => (primary.clone(), paused.clone()),
                _ => return,
            }
        };
        // The cache is read outside the lock of the status, because reading takes the locks of the cache.
        absent.retain(|key| !primary.holds(key));
        let mut state = self.shared.state.lock();
        if let Some(paused) = &mut state.paused {
            paused.retain(|key| !absent.contains(key));
        }
    }

    /// Lets the readers of the paused objects compare them with the cache, so that a deleted object is not shown. Ends
    /// when the returned guard is dropped.
    pub(crate) fn compares_with(&self, cache: Cache, kind: Kind) -> StatusGuard<PrimaryObjects> {
        self.show(|state| &mut state.primary, PrimaryObjects { cache, kind })
    }

    pub(crate) fn shows_recent(
        &self,
        read: impl Fn() -> Vec<RecentReconcile> + Send + Sync + 'static,
    ) {
        self.shared.state.lock().recent = Some(Arc::new(read));
    }

    /// Shows the counts of the workers and the queue, which `read` returns, until the returned guard is dropped.
    pub(crate) fn works(
        &self,
        read: impl Fn() -> WorkProgress + Send + Sync + 'static,
    ) -> StatusGuard<ReadProgress> {
        self.show(|state| &mut state.progress, Arc::new(read))
    }

    /// Marks the controller as waiting for these kinds until the returned guard is dropped.
    pub(crate) fn wait_for(&self, cache: Cache, mut kinds: Vec<Kind>) -> StatusGuard<Awaited> {
        kinds.sort();
        kinds.dedup();
        self.show(|state| &mut state.awaited, Awaited { cache, kinds })
    }

    fn show<T>(&self, place: fn(&mut StatusState) -> &mut Option<T>, value: T) -> StatusGuard<T> {
        *place(&mut self.shared.state.lock()) = Some(value);
        StatusGuard {
            status: self.clone(),
            place,
        }
    }
}

impl PrimaryObjects {
    /// Returns whether a running informer holds the object of a key.
    fn holds(&self, key: &ObjectKey) -> bool {
        let informer = self.cache.untyped_of(self.kind.gvk(), key);
        informer.is_some_and(|informer| informer.key_state(key).stored.is_some())
    }
}

impl<T> Drop for StatusGuard<T> {
    fn drop(&mut self) {
        // The value is dropped outside the lock of the status, because it may be the last handle of the queue or of the
        // cache.
        let value = (self.place)(&mut self.status.shared.state.lock()).take();
        drop(value);
    }
}
