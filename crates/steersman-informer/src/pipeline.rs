//! Driver: the wiring of one informer: reflector, queue, store, fan-out.
//!
//! Whoever changes anything holds the writer's lock: the store changes, then every mailbox gets
//! what that means, then subscribers are woken, after the lock is released. Who subscribes does
//! so under the same lock and so misses nothing and gets nothing twice. Readers take only the
//! store's own lock, which is held no longer than a batch takes to be filed.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use steersman_api::{Decoded, ListWatch};
use steersman_object::{Kind, Object, ResourceVersion};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::delta::{Delta, Item};
use crate::entry::Entry;
use crate::error::Error;
use crate::event::{Event, Origin};
use crate::fanout::{Fanout, Subscription};
use crate::metrics::Counters;
use crate::options::InformerOptions;
use crate::queue::channel::{Sender, channel};
use crate::reflector::driver::{Driver, Sink};
use crate::reflector::machine::Problem;
use crate::state::{Reason, State};
use crate::store::{Applied, Change, IndexFn, IndexValues, Indexer, Shared, Store};

/// One informer: everything but its requests.
pub(crate) struct Core<K> {
    kind: Kind,
    /// What the log calls the kind: `pods`, `websites.web.example.com`.
    name: String,
    options: InformerOptions,
    counters: Counters,
    shared: Arc<Shared<K>>,
    writer: Mutex<Writer<K>>,
    state: watch::Sender<State>,
    progress: watch::Sender<Progress>,
}

struct Writer<K> {
    fanout: Fanout<K>,
    run: Run,
    synced: bool,
    problem: Option<Problem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Declared,
    Running,
    Stopped,
}

/// How far the initial set has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Synced,
    Stopped,
}

impl<K: Object> Core<K> {
    pub(crate) fn new(kind: Kind, options: InformerOptions) -> Self {
        let indexer = RwLock::new(Indexer::default());
        Self {
            counters: Counters::new(options.metrics.clone(), kind.to_string()),
            shared: Arc::new(Shared {
                kind: kind.clone(),
                indexer,
            }),
            writer: Mutex::new(Writer {
                fanout: Fanout::new(options.mailbox_bound),
                run: Run::Declared,
                synced: false,
                problem: None,
            }),
            state: watch::Sender::new(State::Declared),
            progress: watch::Sender::new(Progress::Waiting),
            name: kind.qualified_plural(),
            kind,
            options,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn store(&self) -> Store<K> {
        Store::new(Arc::clone(&self.shared))
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn state_changes(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.writer.lock().synced
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.writer.lock().fanout.len()
    }

    pub(crate) async fn wait_for_sync(&self) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let arrived = progress.wait_for(|p| *p != Progress::Waiting).await;
        match arrived.as_deref() {
            Ok(Progress::Synced) => Ok(()),
            Ok(Progress::Waiting | Progress::Stopped) | Err(_) => Err(Error::Stopped {
                kind: self.kind.to_string(),
            }),
        }
    }

    pub(crate) fn subscribe(&self) -> Subscription<K> {
        let mut writer = self.writer.lock();
        let synced = writer.synced;
        let subscription = {
            let indexer = self.shared.indexer.read();
            writer.fanout.join(indexer.entries(None), synced)
        };
        if writer.run == Run::Stopped {
            writer.fanout.close();
        }
        subscription
    }

    pub(crate) fn add_index(&self, name: &str, function: IndexFn<K>) -> Result<(), Error> {
        let _writer = self.writer.lock();
        let entries: Vec<Entry<K>> = {
            let indexer = self.shared.indexer.read();
            if indexer.index_names().iter().any(|known| known == name) {
                return Err(Error::IndexExists {
                    kind: self.kind.to_string(),
                    name: name.to_owned(),
                });
            }
            indexer.entries(None).cloned().collect()
        };
        // Nothing changes while the writer's lock is held; readers go on meanwhile.
        let values: Vec<(Entry<K>, IndexValues)> = entries
            .into_iter()
            .map(|entry| {
                let values = self.values(&function, &entry);
                (entry, values)
            })
            .collect();
        let index = Indexer::filled_index(name, function, &values);
        self.shared.indexer.write().add_index(index);
        Ok(())
    }

    /// Applies a batch and hands the events to the subscribers.
    fn apply(&self, batch: Vec<Delta<K>>) {
        let mut writer = self.writer.lock();
        let functions = self.shared.indexer.read().index_functions();
        let mut changes = Vec::with_capacity(batch.len());
        for delta in batch {
            match delta {
                Delta::Put(item) => {
                    let values = match &item {
                        Decoded::Good(entry) => Some(self.all_values(&functions, entry)),
                        Decoded::Malformed(_) => None,
                    };
                    changes.push(Change::Put(item, values));
                }
                Delta::Removed(item) => changes.push(Change::Removed(item)),
                Delta::Bookmark { version } => changes.push(Change::Advance(version)),
                Delta::Resync => changes.push(Change::Resync),
                Delta::Replaced { version, items } => {
                    self.change(&mut writer, std::mem::take(&mut changes));
                    self.replace(&mut writer, &functions, items, version);
                }
            }
        }
        self.change(&mut writer, changes);
        let seats = writer.fanout.seats();
        drop(writer);
        for seat in seats {
            seat.ring();
        }
    }

    /// Applies single changes, visible together (STORE-1).
    fn change(&self, writer: &mut Writer<K>, changes: Vec<Change<K>>) {
        if changes.is_empty() {
            return;
        }
        let mut applied = Applied::default();
        {
            let mut indexer = self.shared.indexer.write();
            for change in changes {
                indexer.apply(change, &mut applied);
            }
        }
        self.distribute(writer, &applied);
    }

    /// Builds the store that a relist makes beside the one there is, and swaps it in (STORE-1).
    fn replace(
        &self,
        writer: &mut Writer<K>,
        functions: &[IndexFn<K>],
        items: Vec<Item<K>>,
        version: ResourceVersion,
    ) {
        let origin = if writer.synced {
            Origin::Live
        } else {
            Origin::Initial
        };
        let stored = self.shared.indexer.read();
        let items = items
            .into_iter()
            .map(|item| {
                let values = match &item {
                    Decoded::Good(entry) => {
                        let same = stored.get(entry.key());
                        let same = same.is_some_and(|stored| entry.is_same_version_as(stored));
                        (!same).then(|| self.all_values(functions, entry))
                    }
                    Decoded::Malformed(_) => None,
                };
                (item, values)
            })
            .collect();
        let (next, applied) = stored.replaced(items, version, origin);
        drop(stored);
        let before = std::mem::replace(&mut *self.shared.indexer.write(), next);
        // Dropped after the lock: freeing many objects takes a while.
        drop(before);
        self.distribute(writer, &applied);
        if !writer.synced {
            writer.synced = true;
            writer.fanout.mark_synced();
            self.progress.send_replace(Progress::Synced);
            tracing::info!(kind = %self.name, objects = self.shared.indexer.read().len(), "synced");
            self.publish(writer);
        }
    }

    /// Tells the subscribers of changes that the store has by now (FAN-3).
    fn distribute(&self, writer: &mut Writer<K>, applied: &Applied<K>) {
        for malformed in &applied.malformed {
            tracing::warn!(
                kind = %self.name,
                object = %malformed.key,
                version = %malformed.version,
                error = %malformed.error,
                "an object does not decode and is kept aside"
            );
        }
        for event in &applied.events {
            self.counters.event(match event {
                Event::Created { .. } => "created",
                Event::Updated { .. } => "updated",
                Event::Deleted { .. } => "deleted",
            });
        }
        let (objects, malformed) = {
            let indexer = self.shared.indexer.read();
            (indexer.len(), indexer.malformed().len())
        };
        self.counters.stored(objects, malformed);
        writer.fanout.distribute(&applied.events);
    }

    fn all_values(&self, functions: &[IndexFn<K>], entry: &Entry<K>) -> Vec<IndexValues> {
        let each = functions.iter().map(|f| self.values(f, entry));
        each.collect()
    }

    /// What an index function says of an object. One that panics costs its own value.
    fn values(&self, function: &IndexFn<K>, entry: &Entry<K>) -> IndexValues {
        let body = entry.body();
        let values = catch_unwind(AssertUnwindSafe(|| function(&body)));
        let values: BTreeSet<String> = values.map_or_else(
            |_| {
                tracing::error!(kind = %self.name, object = %entry.key(), "an index function panicked");
                BTreeSet::new()
            },
            |values| values.into_iter().collect(),
        );
        values.into_iter().map(Arc::from).collect()
    }

    fn report(&self, problem: Option<&Problem>) {
        let mut writer = self.writer.lock();
        let reason = |problem: Option<&Problem>| problem.map(|p| p.reason);
        let changed = reason(writer.problem.as_ref()) != reason(problem);
        if writer.problem.as_ref() == problem {
            return;
        }
        writer.problem = problem.cloned();
        let synced = writer.synced;
        self.publish(&writer);
        drop(writer);
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

    fn publish(&self, writer: &Writer<K>) {
        let state = match (writer.run, &writer.problem, writer.synced) {
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
        self.state.send_if_modified(|now| {
            let modified = *now != state;
            *now = state;
            modified
        });
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

    fn stop(&self) {
        let mut writer = self.writer.lock();
        writer.run = Run::Stopped;
        writer.fanout.close();
        self.publish(&writer);
        self.progress.send_if_modified(|progress| {
            let waiting = *progress == Progress::Waiting;
            if waiting {
                *progress = Progress::Stopped;
            }
            waiting
        });
    }
}

/// Runs the pipeline until it is cancelled or dropped.
pub(crate) async fn run<K, L>(core: Arc<Core<K>>, list_watch: L, cancel: CancellationToken)
where
    K: Object,
    L: ListWatch<K>,
{
    if !core.start() {
        tracing::error!(kind = %core.name, "the informer runs already or has stopped");
        return;
    }
    let running = Running {
        core: Arc::clone(&core),
    };
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
        () = resync(&core, core.options.resync) => {}
    }
    drop(running);
}

#[expect(clippy::infinite_loop, reason = "the caller cancels by dropping")]
async fn resync<K: Object>(core: &Core<K>, every: Option<Duration>) {
    let Some(every) = every else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(every).await;
        core.apply(vec![Delta::Resync]);
    }
}

/// Marks the informer as stopped, however its run ends.
struct Running<K: Object> {
    core: Arc<Core<K>>,
}

impl<K: Object> Drop for Running<K> {
    fn drop(&mut self) {
        self.core.stop();
    }
}

/// What the reflector is given: the queue to fill, and the store to compare with.
struct Inlet<K> {
    core: Arc<Core<K>>,
    sender: Sender<K>,
}

impl<K: Object> Sink<K> for Inlet<K> {
    fn ingest(&self, decoded: Decoded<K>) -> Item<K> {
        decoded.map(|object| {
            let entry = Entry::new(object);
            // A relist costs memory only for what changed.
            let indexer = self.core.shared.indexer.read();
            match indexer.get(entry.key()) {
                Some(stored) if stored.is_same_version_as(&entry) => stored.clone(),
                Some(_) | None => entry,
            }
        })
    }

    async fn send(&self, delta: Delta<K>) {
        self.sender.send(delta).await;
    }

    fn report(&self, problem: Option<&Problem>) {
        self.core.report(problem);
    }
}

#[cfg(test)]
mod tests;
