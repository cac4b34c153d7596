//! Driver: the wiring of one informer: reflector, queue, store, fan-out.
//!
//! Whoever changes anything holds the writer's lock: the store changes, then every mailbox gets
//! what that means, then subscribers are woken, after the lock is released. Who subscribes does
//! so under the same lock and so misses nothing and gets nothing twice. Readers take only the
//! store's own lock, which is held no longer than a batch takes to be filed.

mod inlet;
mod looking;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use steersman_api::{Decoded, ListWatch, Malformed};
use steersman_object::{Kind, Object, ObjectKey, ResourceVersion};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::body::Extent;
use crate::delta::{Delta, Item};
use crate::error::Error;
use crate::event::Origin;
use crate::fanout::Fanout;
use crate::glimpse::{Glimpse, Identity};
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::pipeline::inlet::Inlet;
use crate::queue::channel::channel;
use crate::reflector::backoff::Jitter;
use crate::reflector::driver::Driver;
use crate::reflector::machine::Problem;
use crate::state::{Reason, State};
use crate::store::{Applied, Change, Findings, Held, Indexer, Shared, Store, View};

/// One informer: everything but its requests. It knows no type: whoever looks at its objects as a
/// type holds a view.
pub(crate) struct Core {
    kind: Kind,
    /// What the log calls the kind: `pods`, `websites.web.example.com`.
    name: String,
    options: InformerOptions,
    counters: Counters,
    shared: Arc<Shared>,
    writer: Mutex<Writer>,
    /// As those see it who need no more than metadata, and those who need the whole.
    states: [watch::Sender<State>; 2],
    progress: watch::Sender<Progress>,
    /// Counts what was applied.
    applied: watch::Sender<u64>,
    /// How much of each object is wanted. Never less than before: it is the reflector's to obey.
    wanted: watch::Sender<Extent>,
}

struct Writer {
    fanout: Fanout,
    run: Run,
    /// How much of each object the store holds; nothing before the first list.
    reached: Option<Extent>,
    problem: Option<Problem>,
    views: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Declared,
    Running,
    Stopped,
}

/// How far the initial set has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    reached: Option<Extent>,
    stopped: bool,
}

impl Core {
    pub(crate) fn new(kind: Kind, options: InformerOptions) -> Self {
        let indexer = RwLock::new(Indexer::default());
        let declared = || watch::Sender::new(State::Declared);
        Self {
            counters: Counters::new(options.metrics.clone(), kind.to_string()),
            shared: Arc::new(Shared {
                kind: kind.clone(),
                indexer,
            }),
            writer: Mutex::new(Writer {
                fanout: Fanout::new(options.mailbox_bound),
                run: Run::Declared,
                reached: None,
                problem: None,
                views: 0,
            }),
            states: [declared(), declared()],
            progress: watch::Sender::new(Progress {
                reached: None,
                stopped: false,
            }),
            applied: watch::Sender::new(0),
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

    pub(crate) fn store<K: Object>(&self, held: &Arc<Held>) -> Store<K> {
        Store::new(Arc::clone(&self.shared), Arc::clone(held))
    }

    pub(crate) fn state(&self, needs: Extent) -> State {
        self.states[place(needs)].borrow().clone()
    }

    pub(crate) fn state_changes(&self, needs: Extent) -> watch::Receiver<State> {
        self.states[place(needs)].subscribe()
    }

    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// What is stored of one object, and the version up to which everything was applied: of one moment.
    pub(crate) fn glimpse(&self, key: &ObjectKey) -> Glimpse {
        let indexer = self.shared.indexer.read();
        Glimpse {
            applied: indexer.version().clone(),
            stored: indexer.get(key).map(|entry| Identity {
                uid: entry.uid().to_owned(),
                version: entry.version().clone(),
                is_deleting: entry.is_deleting(),
            }),
        }
    }

    pub(crate) fn has_synced(&self, needs: Extent) -> bool {
        self.writer.lock().reached >= Some(needs)
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
        let enough = |progress: &Progress| progress.reached >= Some(needs);
        let arrived = progress.wait_for(|p| p.stopped || enough(p)).await;
        match arrived.as_deref() {
            Ok(progress) if enough(progress) => Ok(()),
            Ok(_) | Err(_) => Err(Error::Stopped {
                kind: self.kind.to_string(),
            }),
        }
    }

    // ----- changes -----

    /// Applies a batch and hands the events to the subscribers.
    fn apply(&self, batch: Vec<Delta>) {
        let mut writer = self.writer.lock();
        let left = !self.shared.indexer.read().views().iter().all(View::is_held);
        if left {
            self.shared.indexer.write().drop_left_views();
        }
        let judges = self.shared.indexer.read().judges();
        let mut changes = Vec::with_capacity(batch.len());
        for delta in batch {
            match delta {
                Delta::Put(item) => {
                    let findings = match &item {
                        Decoded::Good(entry) => judges.iter().map(|j| j.finding(entry)).collect(),
                        Decoded::Malformed(_) => Findings::new(),
                    };
                    changes.push(Change::Put(item, findings));
                }
                Delta::Removed(item) => {
                    let findings = match &item {
                        Decoded::Good(last) => judges.iter().map(|j| j.check(last)).collect(),
                        Decoded::Malformed(_) => Findings::new(),
                    };
                    changes.push(Change::Removed(item, findings));
                }
                Delta::Bookmark { version } => changes.push(Change::Advance(version)),
                Delta::Resync => changes.push(Change::Resync),
                Delta::Replaced {
                    version,
                    items,
                    extent,
                } => {
                    self.change(&mut writer, std::mem::take(&mut changes));
                    self.replace(&mut writer, items, version, extent);
                }
            }
        }
        self.change(&mut writer, changes);
        let seats = writer.fanout.seats();
        drop(writer);
        // RYOW-2: after the store has it, so that who looks again sees it.
        self.bump();
        for seat in seats {
            seat.ring();
        }
    }

    /// Something that a look may show has changed.
    fn bump(&self) {
        self.applied
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Applies single changes, visible together (STORE-1).
    fn change(&self, writer: &mut Writer, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let applied = {
            let mut indexer = self.shared.indexer.write();
            let mut applied = indexer.unchanged();
            for change in changes {
                indexer.apply(change, &mut applied);
            }
            applied
        };
        self.distribute(writer, &applied);
    }

    /// Builds the store that a relist makes beside the one there is, and swaps it in (STORE-1).
    fn replace(
        &self,
        writer: &mut Writer,
        items: Vec<Item>,
        version: ResourceVersion,
        extent: Extent,
    ) {
        let origin = if writer.reached.is_some() {
            Origin::Live
        } else {
            Origin::Initial
        };
        let stored = self.shared.indexer.read();
        let judges = stored.judges();
        let items = items.into_iter().map(|item| {
            let findings = match &item {
                Decoded::Good(entry) => {
                    let same = stored.get(entry.key());
                    if same.is_some_and(|stored| entry.is_same_version_as(stored)) {
                        Findings::new()
                    } else {
                        judges.iter().map(|judge| judge.finding(entry)).collect()
                    }
                }
                Decoded::Malformed(_) => Findings::new(),
            };
            (item, findings)
        });
        let items = items.collect();
        let (mut next, applied) = stored.replaced(items, version, origin, extent);
        drop(stored);
        // Nobody sees it yet: what users wrote runs without a lock that readers wait for.
        let fresh = next.reach(extent);
        let before = std::mem::replace(&mut *self.shared.indexer.write(), next);
        // Dropped after the lock: freeing many objects takes a while.
        drop(before);
        self.distribute(writer, &applied);
        for told in fresh {
            self.tell(&told.malformed);
            let indexer = self.shared.indexer.read();
            let view = indexer.view(told.view).into_iter();
            let present = view.flat_map(|view| indexer.seen(view, None));
            writer.fanout.fill(told.view, present);
        }
        if writer.reached < Some(extent) {
            self.reach(writer, extent);
        }
    }

    /// The store is complete, for all who need no more than `extent`.
    fn reach(&self, writer: &mut Writer, extent: Extent) {
        let before = writer.reached.replace(extent);
        {
            let indexer = self.shared.indexer.read();
            for view in indexer.views() {
                if before < Some(view.needs()) && view.needs() <= extent {
                    writer.fanout.mark_synced(view.id());
                }
            }
            if before.is_none() {
                tracing::info!(kind = %self.name, objects = indexer.len(), "synced");
            }
        }
        self.progress
            .send_modify(|progress| progress.reached = Some(extent));
        self.publish(writer);
    }

    /// Tells the subscribers of changes that the store has by now (FAN-3).
    fn distribute(&self, writer: &mut Writer, applied: &Applied) {
        self.tell(&applied.malformed);
        for word in &applied.words {
            self.counters.event(word);
        }
        let (objects, malformed) = {
            let indexer = self.shared.indexer.read();
            (indexer.len(), indexer.unreadable())
        };
        self.counters.stored(objects, malformed);
        for told in &applied.told {
            self.tell(&told.malformed);
            writer.fanout.distribute(told.view, &told.events);
        }
    }

    /// Tells people of objects that are kept aside.
    fn tell(&self, malformed: &[Malformed]) {
        for malformed in malformed {
            tracing::warn!(
                kind = %self.name,
                object = %malformed.key,
                version = %malformed.version,
                error = %malformed.error,
                "an object does not decode and is kept aside"
            );
        }
    }

    fn report(&self, problem: Option<&Problem>) {
        let mut writer = self.writer.lock();
        let reason = |problem: Option<&Problem>| problem.map(|p| p.reason);
        let changed = reason(writer.problem.as_ref()) != reason(problem);
        if writer.problem.as_ref() == problem {
            return;
        }
        writer.problem = problem.cloned();
        let synced = writer.reached.is_some();
        self.publish(&writer);
        drop(writer);
        self.bump();
        // Once per change of the reason, not once per attempt.
        match problem {
            // Somebody deleted the definition: what happened, and no advice to undo it.
            Some(problem) if changed && synced && problem.reason == Reason::NotServed => {
                tracing::warn!(
                    kind = %self.name,
                    "is no longer served; goes on when it is served again"
                );
            }
            Some(problem) if changed => tracing::warn!(
                kind = %self.name,
                reason = %problem.reason,
                // Not `message`: that is the name of the text itself, which would be lost.
                error = %problem.message,
                // Last and without quotes: it may hold a rule to copy.
                way_out = self.options.ways_out.of(problem.reason).map(tracing::field::display),
                "degraded; trying again until it works"
            ),
            None if changed => tracing::info!(kind = %self.name, "recovered"),
            Some(_) | None => {}
        }
    }

    fn publish(&self, writer: &Writer) {
        for needs in [Extent::Metadata, Extent::Whole] {
            let synced = writer.reached >= Some(needs);
            let state = match (writer.run, &writer.problem, synced) {
                (Run::Declared, _, _) => State::Declared,
                (Run::Stopped, _, _) => State::Stopped,
                (Run::Running, Some(problem), _) => State::Degraded {
                    reason: problem.reason,
                    message: problem.message.clone(),
                    since: problem.since,
                },
                (Run::Running, None, true) => State::Synced,
                (Run::Running, None, false) => State::Syncing,
            };
            self.states[place(needs)].send_if_modified(|now| {
                let modified = *now != state;
                *now = state;
                modified
            });
        }
    }

    /// Marks the informer as running. An informer runs once.
    fn start(&self) -> bool {
        let mut writer = self.writer.lock();
        let first = writer.run == Run::Declared;
        if first {
            writer.run = Run::Running;
            self.publish(&writer);
        }
        first
    }

    pub(crate) fn end_unstarted(&self) {
        let writer = self.writer.lock();
        if writer.run == Run::Declared {
            self.stopped(writer);
        }
    }

    fn stop(&self) {
        self.stopped(self.writer.lock());
    }

    fn stopped(&self, mut writer: MutexGuard<'_, Writer>) {
        writer.run = Run::Stopped;
        writer.fanout.close();
        self.publish(&writer);
        self.progress
            .send_modify(|progress| progress.stopped = true);
        self.bump();
    }
}

/// Which of two states is for those who need so much.
fn place(needs: Extent) -> usize {
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
    let running = Running {
        core: Arc::clone(&core),
    };
    if cancel.is_cancelled() {
        return;
    }
    let (sender, receiver) = channel(core.options.queue_bound);
    let inlet = Inlet {
        core: Arc::clone(&core),
        sender,
    };
    let driver = Driver::new(list_watch, inlet, &core.options, core.counters.clone());
    let apply = async {
        while let Some(batch) = receiver.recv_batch().await {
            core.apply(batch);
            tokio::task::coop::consume_budget().await;
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = driver.run() => {}
        () = apply => {}
        () = resync(&core) => {}
    }
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
    every.mul_f64(0.9 + Jitter::new(seed).fraction() / 5.0)
}

/// Marks the informer as stopped, however its run ends.
struct Running {
    core: Arc<Core>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.core.stop();
    }
}

#[cfg(test)]
mod tests;
