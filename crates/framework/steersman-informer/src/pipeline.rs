//! Driver: joins the parts of one informer: reflector, queue, store and fan-out.
//!
//! Every change holds the writer's lock: first the store changes, then every mailbox gets the events, and subscribers
//! are woken after the lock is released. Subscribing takes the same lock, so that no event is missed or delivered
//! twice. Readers take only the store's own lock. The writer holds it for one section of changes at a time (STORE-7).

mod problem_log;
mod status;
mod apply;
mod views;
mod slots;
mod host;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use steersman_api::encoding::has_protobuf;
use steersman_api::{ListWatch, Projection};
use steersman_object::{Jitter, Kind, Object, SlotSet};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::body::BodyContext;
use crate::delta::Delta;
use crate::error::Error;
use crate::fanout::Fanout;
use crate::ingest::dictionary::train_dictionaries;
use crate::ingest::entry_maker::EntryMaker;
use crate::metrics::Counters;
use crate::metrics::gauges::{Gauges, InformerUsage};
use crate::options::InformerOptions;
use crate::pipeline::host::CoreHost;
use crate::pipeline::problem_log::ProblemLog;
use crate::pipeline::slots::{InformerSlots, release_lost_slots};
use crate::queue::QueueBounds;
use crate::queue::channel::channel;
use crate::reflector::driver::Reflector;
use crate::reflector::request_metrics::RequestMetrics;
use crate::reflector::step::RequestProblem;
use crate::state::InformerState;
use crate::store::{Indexer, Store, StoreState, ViewHandle};

/// The shortest interval between two resyncs, as in client-go (`minimumResyncPeriod`).
const RESYNC: Duration = Duration::from_secs(1);

/// The state of one informer: the store, its views and subscribers. Only views are tied to a Rust type.
pub(crate) struct Core {
    pub(crate) kind: Kind,
    /// The name of the kind in logs: `pods`, `websites.web.example.com`.
    name: String,
    options: InformerOptions,
    counters: Counters,
    pub(crate) entries: Arc<EntryMaker>,
    pub(crate) shared: Arc<StoreState>,
    writer: Mutex<StoreWriter>,
    /// Serialises the creation of views and indexes, outside the writer's lock (VIEW-7). Locked before `writer`.
    view_creation: Mutex<()>,
    /// One state per projection: the store may be complete for readers of metadata alone. Index: [`projection_index`].
    states: [watch::Sender<InformerState>; 3],
    progress: watch::Sender<SyncProgress>,
    /// For each projection, whether the store was ever complete with it; read without a lock (STORE-7).
    synced: [AtomicBool; 3],
    /// The number of changes so far; see [`UntypedInformer::applied`](crate::UntypedInformer::applied).
    pub(crate) applied: watch::Sender<u64>,
    /// How much of each object the reflector requests. The value never shrinks.
    wanted: watch::Sender<Projection>,
    relists: watch::Sender<u64>,
    /// The instant by which the reflector is active again; after it, the reflector counts as stuck (HEALTH-3).
    activity_due: Mutex<Option<Instant>>,
    /// The slots of the informer; `None` without a filter.
    slots: Option<Arc<InformerSlots>>,
    /// The slots of which the store has all objects: all of them for an informer without a filter that has synced.
    loaded: watch::Sender<SlotSet>,
}

struct StoreWriter {
    fanout: Fanout,
    run: RunState,
    problem: Option<RequestProblem>,
    problem_log: ProblemLog,
    views: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunState {
    Declared,
    Running,
    /// The run has ended. Subscribers take their waiting deliveries, and later subscribers get the stored objects.
    Stopped,
    /// The informer was ended for good, so subscribers get no further delivery (FAN-4).
    Ended,
}

/// The progress of the lists of an informer. Written under the writer's lock, and read without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SyncProgress {
    /// How much of each object the store holds; `None` before the first list.
    reached: Option<Projection>,
    /// The number of relist requests when the last complete list began: these requests are answered.
    relists: u64,
    stopped: bool,
}

impl Core {
    pub(crate) fn new(kind: Kind, options: InformerOptions) -> Self {
        let indexer = RwLock::new(Indexer::default());
        let declared = || watch::Sender::new(InformerState::Declared);
        let counters = Counters::new(options.metrics.as_ref(), kind.to_string());
        // Secrets are marked, because errors and dictionaries must not contain their values.
        let secret = kind.gvk().kind() == "Secret";
        let mut context = BodyContext::new(options.budget.clone(), counters.clone(), secret);
        context.changes_form = !has_protobuf(&kind);
        let shared = Arc::new(StoreState {
            kind: kind.clone(),
            indexer,
        });
        let entries = EntryMaker::new(options.transform.clone(), context, Arc::clone(&shared));
        Self {
            counters,
            entries: Arc::new(entries),
            shared,
            writer: Mutex::new(StoreWriter {
                fanout: Fanout::new(options.mailbox_bound),
                run: RunState::Declared,
                problem: None,
                problem_log: ProblemLog::default(),
                views: 0,
            }),
            view_creation: Mutex::new(()),
            states: [declared(), declared(), declared()],
            progress: watch::Sender::default(),
            applied: watch::Sender::new(0),
            synced: [false; 3].map(AtomicBool::new),
            // A transform gets whole objects, so they are requested from the start.
            wanted: watch::Sender::new(match options.transform {
                Some(_) => whole(&kind),
                None => Projection::Metadata,
            }),
            relists: watch::Sender::new(0),
            activity_due: Mutex::new(None),
            slots: InformerSlots::of(&options, &kind),
            loaded: watch::Sender::default(),
            name: kind.qualified_plural(),
            kind,
            options,
        }
    }

    pub(crate) fn store<K: Object>(&self, handle: &Arc<ViewHandle>) -> Store<K> {
        Store::new(Arc::clone(&self.shared), Arc::clone(handle))
    }

    pub(crate) fn state(&self, needs: Projection) -> InformerState {
        self.states[projection_index(needs)].borrow().clone()
    }

    pub(crate) fn state_changes(&self, needs: Projection) -> watch::Receiver<InformerState> {
        self.states[projection_index(needs)].subscribe()
    }

    /// Returns whether the store was ever complete with this part of the objects. Takes no lock, for reads (STORE-7).
    pub(crate) fn has_synced(&self, needs: Projection) -> bool {
        self.synced[projection_index(needs)].load(Ordering::Acquire)
    }

    /// Returns how much of each object the store holds; `None` before the first list.
    fn reached(&self) -> Option<Projection> {
        self.progress.borrow().reached
    }

    pub(crate) fn wanted(&self) -> Projection {
        *self.wanted.borrow()
    }

    /// Returns the instant by which the reflector is active again; `None` unless it runs.
    pub(crate) fn activity_due(&self) -> Option<Instant> {
        let is_running = self.writer.lock().run == RunState::Running;
        self.activity_due.lock().filter(|_| is_running)
    }

    /// Returns what the informer holds and has received; `None` without metrics.
    pub(crate) fn usage(&self) -> Option<InformerUsage> {
        self.counters.gauges().map(Gauges::usage)
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.writer.lock().fanout.len()
    }

    /// Requests a relist. The returned future waits until a later list is complete or the informer has stopped.
    pub(crate) fn relist(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut number = 0;
        self.relists.send_modify(|relists| {
            *relists += 1;
            number = *relists;
        });
        let mut progress = self.progress.subscribe();
        async move {
            // The wait fails only if the informer was dropped.
            let _listed = progress
                .wait_for(|progress| progress.stopped || progress.relists >= number)
                .await;
        }
    }

    pub(crate) async fn wait_for_sync(&self, needs: Projection) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let enough = |progress: &SyncProgress| progress.reached >= Some(needs);
        let arrived = progress.wait_for(|p| p.stopped || enough(p)).await;
        match arrived.as_deref() {
            Ok(progress) if enough(progress) => Ok(()),
            Ok(_) | Err(_) => Err(Error::Stopped {
                kind: self.kind.to_string(),
            }),
        }
    }
}

/// Returns the projection that holds whole objects of a kind. A kind that is sent as JSON always has every field.
fn whole(kind: &Kind) -> Projection {
    if has_protobuf(kind) {
        Projection::Whole
    } else {
        Projection::EveryField
    }
}

fn projection_index(needs: Projection) -> usize {
    match needs {
        Projection::Metadata => 0,
        Projection::Whole => 1,
        Projection::EveryField => 2,
    }
}

/// Runs the informer until it is cancelled or dropped.
///
/// A run that is dropped may leave the entries of its last batch unpacked.
pub(crate) async fn run<L: ListWatch>(core: Arc<Core>, list_watch: L, cancel: CancellationToken) {
    if !core.start() {
        tracing::error!(kind = %core.name, "an informer runs only once: make another one to run again");
        return;
    }
    let running = StopOnDrop {
        core: Arc::clone(&core),
    };
    if cancel.is_cancelled() {
        return;
    }
    let bounds = QueueBounds {
        deltas: core.options.queue_bound,
        bytes: core.options.queue_bytes,
    };
    let (sender, receiver) = channel(bounds, core.counters.clone());
    let host = CoreHost {
        core: Arc::clone(&core),
        queued: sender.length(),
    };
    let request_metrics = RequestMetrics::new(core.counters.clone());
    let options = core.options.clone();
    let driver = Reflector::new(list_watch, sender, host, options, request_metrics);
    let mut applied = Vec::new();
    let apply = async {
        while let Some(batch) = receiver.recv_batch().await {
            applied = core.apply_queued(batch);
            if applied.is_empty() {
                tokio::task::coop::consume_budget().await;
            } else {
                // PACK-6: subscribers run before the live objects are packed, so that their reads need no unpacking.
                tokio::task::yield_now().await;
                core.entries.pack_all(&applied);
                applied.clear();
            }
        }
    };
    tokio::select! {
        // The branches are polled in this order, so that deltas of the reflector are applied in the same poll.
        biased;
        () = cancel.cancelled() => {}
        // Lost slots are released before a further event is read.
        () = release_lost_slots(&core) => {}
        () = driver.run() => {}
        () = apply => {}
        () = resync(&core) => {}
        () = train_dictionaries(&core.entries) => {}
    }
    // If the run was cancelled, the entries of its last batch may not be packed yet.
    core.entries.pack_all(&applied);
    drop(running);
}

#[expect(clippy::infinite_loop, reason = "the caller cancels by dropping")]
async fn resync(core: &Core) {
    let Some(every) = core.options.resync else {
        return std::future::pending().await;
    };
    let every = spread(every, core.options.seed);
    loop {
        tokio::time::sleep(every).await;
        core.apply(vec![Delta::Resync]);
    }
}

/// Returns the interval with a jitter of up to a tenth, so that informers do not resync together.
fn spread(every: Duration, seed: u64) -> Duration {
    Jitter::new(seed).about(every.max(RESYNC))
}

/// Marks the informer as stopped when its run ends or is dropped.
struct StopOnDrop {
    core: Arc<Core>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.core.stop();
    }
}

#[cfg(test)]
mod tests;
