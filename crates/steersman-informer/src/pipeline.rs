//! Driver: the wiring of one informer: reflector, queue, store, fan-out.
//!
//! Whoever changes anything holds the writer's lock: the store changes, then every mailbox gets
//! what that means, then subscribers are woken, after the lock is released. Who subscribes does
//! so under the same lock and so misses nothing and gets nothing twice. Readers take only the
//! store's own lock, which is held no longer than a batch takes to be filed (STORE-7).

mod problem_log;
mod status;
mod apply;
mod views;
mod ingest_plan;
mod ingest;
mod sink;
mod dictionary;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use steersman_api::ListWatch;
use steersman_object::{Kind, Object, ObjectKey};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::body::Extent;
use crate::delta::Delta;
use crate::entry::Interners;
use crate::error::Error;
use crate::fanout::Fanout;
use crate::metrics::Counters;
use crate::observed_state::{Identity, ObservedState};
use crate::options::InformerOptions;
use crate::pack::PackContext;
use crate::pipeline::problem_log::ProblemLog;
use crate::pipeline::sink::ReflectorSink;
use crate::queue::Bounds;
use crate::queue::channel::channel;
use crate::reflector::backoff::Jitter;
use crate::reflector::driver::Reflector;
use crate::reflector::request_metrics::RequestMetrics;
use crate::reflector::step::Problem;
use crate::state::State;
use crate::store::{Indexer, Store, StoreState, ViewHandle};

/// The shortest time between two resyncs, as of client-go (`minimumResyncPeriod`).
const RESYNC: Duration = Duration::from_secs(1);

/// One informer: everything but its requests. It knows no type: whoever looks at its objects as a
/// type holds a view.
pub(crate) struct Core {
    kind: Kind,
    /// What the log calls the kind: `pods`, `websites.web.example.com`.
    name: String,
    options: InformerOptions,
    counters: Counters,
    interners: Interners,
    /// What the bodies of its objects share.
    context: Arc<PackContext>,
    /// Rings where there may be something to learn of how to pack.
    train: Notify,
    shared: Arc<StoreState>,
    writer: Mutex<Writer>,
    /// Held while a view or an index is made, without the writer's lock: one at a time (VIEW-7). Taken
    /// before the writer's lock.
    looks: Mutex<()>,
    /// As those see it who need no more than metadata, and those who need the whole.
    states: [watch::Sender<State>; 2],
    progress: watch::Sender<SyncProgress>,
    /// What of that each read asks.
    synced: [AtomicBool; 2],
    /// Counts what was applied.
    applied: watch::Sender<u64>,
    /// How much of each object is wanted. Never less than before: it is the reflector's to obey.
    wanted: watch::Sender<Extent>,
}

struct Writer {
    fanout: Fanout,
    run: Run,
    problem: Option<Problem>,
    problem_log: ProblemLog,
    views: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Declared,
    Running,
    Stopped,
}

/// How far the initial set has come. It changes under the writer's lock alone, and is read without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SyncProgress {
    /// How much of each object the store holds; nothing before the first list.
    reached: Option<Extent>,
    stopped: bool,
}

impl Core {
    pub(crate) fn new(kind: Kind, options: InformerOptions) -> Self {
        let indexer = RwLock::new(Indexer::default());
        let declared = || watch::Sender::new(State::Declared);
        let counters = Counters::new(options.metrics.as_ref(), kind.to_string());
        // A Secret's values go nowhere, neither into an error nor into what packs another object.
        let secret = kind.gvk().kind() == "Secret";
        let context = PackContext::new(options.budget.clone(), counters.clone(), secret);
        Self {
            counters,
            interners: Interners::default(),
            context: Arc::new(context),
            train: Notify::new(),
            shared: Arc::new(StoreState {
                kind: kind.clone(),
                indexer,
            }),
            writer: Mutex::new(Writer {
                fanout: Fanout::new(options.mailbox_bound),
                run: Run::Declared,
                problem: None,
                problem_log: ProblemLog::default(),
                views: 0,
            }),
            looks: Mutex::new(()),
            states: [declared(), declared()],
            progress: watch::Sender::new(SyncProgress {
                reached: None,
                stopped: false,
            }),
            applied: watch::Sender::new(0),
            synced: [false, false].map(AtomicBool::new),
            // A transform needs the whole object.
            wanted: watch::Sender::new(match options.transform {
                Some(_) => Extent::Whole,
                None => Extent::Metadata,
            }),
            name: kind.qualified_plural(),
            kind,
            options,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn store<K: Object>(&self, handle: &Arc<ViewHandle>) -> Store<K> {
        Store::new(Arc::clone(&self.shared), Arc::clone(handle))
    }

    pub(crate) fn state(&self, needs: Extent) -> State {
        self.states[extent_index(needs)].borrow().clone()
    }

    pub(crate) fn state_changes(&self, needs: Extent) -> watch::Receiver<State> {
        self.states[extent_index(needs)].subscribe()
    }

    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// What is stored of one object, and the version up to which everything was applied: of one moment.
    pub(crate) fn observed_state(&self, key: &ObjectKey) -> ObservedState {
        let indexer = self.shared.indexer.read();
        ObservedState {
            applied: indexer.version().clone(),
            stored: indexer.get(key).map(|entry| Identity {
                uid: entry.uid().to_string(),
                version: entry.version().clone(),
                is_deleting: entry.is_deleting(),
            }),
        }
    }

    /// Asked at each read, so it does not wait for whoever writes (STORE-7).
    pub(crate) fn has_synced(&self, needs: Extent) -> bool {
        self.synced[extent_index(needs)].load(Ordering::Acquire)
    }

    /// How much of each object the store holds; nothing before the first list.
    fn reached(&self) -> Option<Extent> {
        self.progress.borrow().reached
    }

    /// How much of each object is wanted.
    pub(crate) fn wanted(&self) -> Extent {
        *self.wanted.borrow()
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.writer.lock().fanout.len()
    }

    pub(crate) async fn wait_for_sync(&self, needs: Extent) -> Result<(), Error> {
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

/// Which of two states is for those who need so much.
fn extent_index(needs: Extent) -> usize {
    match needs {
        Extent::Metadata => 0,
        Extent::Whole => 1,
    }
}

/// Runs the pipeline until it is cancelled or dropped.
pub(crate) async fn run<L: ListWatch>(core: Arc<Core>, list_watch: L, cancel: CancellationToken) {
    if !core.start() {
        tracing::error!(kind = %core.name, "the informer runs already or has stopped");
        return;
    }
    let running = StopOnDrop {
        core: Arc::clone(&core),
    };
    if cancel.is_cancelled() {
        return;
    }
    let (sender, receiver) = channel(Bounds {
        deltas: core.options.queue_bound,
        bytes: core.options.queue_bytes,
    });
    let sink = ReflectorSink {
        core: Arc::clone(&core),
        sender,
    };
    let request_metrics = RequestMetrics::new(core.counters.clone());
    let driver = Reflector::new(list_watch, sink, &core.options, request_metrics);
    let mut applied = Vec::new();
    let apply = async {
        while let Some(batch) = receiver.recv_batch().await {
            applied = core.apply_queued(batch);
            if applied.is_empty() {
                tokio::task::coop::consume_budget().await;
            } else {
                // PACK-6: the subscribers that were told of the objects read them first.
                tokio::task::yield_now().await;
                core.pack_all(&applied);
                applied.clear();
            }
        }
    };
    tokio::select! {
        // What the driver has brought is applied in the same turn.
        biased;
        () = cancel.cancelled() => {}
        () = driver.run() => {}
        () = apply => {}
        () = resync(&core) => {}
        () = dictionary::train_dictionaries(&core) => {}
    }
    // A run that is cancelled between the two steps of `apply` leaves entries unpacked.
    core.pack_all(&applied);
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

/// A tenth less to a tenth more: not all informers repeat everything at once.
fn spread(every: Duration, seed: u64) -> Duration {
    let seconds = every.max(RESYNC).as_secs_f64() * (0.9 + Jitter::new(seed).fraction() / 5.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Marks the informer as stopped, however its run ends.
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
