//! Driver: runs one controller: watches, queue and workers, from its start to its end.

mod first_sync;
mod overdue;
mod running_inside;
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{FutureExt as _, join_all};
use prometheus::Registry;
use steersman_api::clock::{at, now};
use steersman_client::{Client, WriteObserver};
use steersman_object::Kind;
use steersman_workqueue::{Metrics as QueueMetrics, MetricsError, Queue};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::changes::PendingChanges;
use crate::context::declared::DeclaredKinds;
use crate::context::event_journal::{EventJournal, StepJournal};
use crate::context::loop_watch::LoopWatch;
use crate::context::{Context, OtherClusters, default_events};
use crate::error::ControllerError;
use crate::lifecycle::{Lifecycle, LifecycleEvent, LifecycleStep};
use crate::limit::{LimitUser, ReconcileLimit};
use crate::metrics::sources::SourceMetrics;
use crate::metrics::{Metrics, PermitMetrics, Registrar};
use crate::options::{Options, ResolvedSettings};
use crate::reconcile::BoxReconciler;
use crate::request::RequestKey;
use crate::start::StartContext;
use crate::status::{Awaited, ControllerStatus, ReadProgress, StatusGuard, WorkProgress};
use crate::watch::in_clusters::follow;
use crate::watch::{EventFilter, PumpEnd, Sink, Sources};
use crate::worker::hooks::Hooks;
use crate::worker::recent_reconciles::RecentReconciles;
use crate::worker::sharded_requests::ShardedRequests;
use crate::worker::{Work, Worker};

use running_inside::RunningInside;

use first_sync::{InitialSets, next_synced, remind, sync_error};
use overdue::{BETWEEN_LOOKS, OverdueReconciles};
use tasks::ControllerTasks;

/// The parts of a controller that depend on the type of its requests.
pub(crate) struct ControllerParts<R: RequestKey> {
    pub(crate) name: String,
    pub(crate) sources: Sources<R>,
    pub(crate) event_filter: Option<EventFilter>,
    pub(crate) options: Options<R>,
    pub(crate) hooks: Hooks<R>,
    pub(crate) declared: DeclaredKinds,
    pub(crate) reconciler: BoxReconciler<R>,
}

struct RunningController<R: RequestKey> {
    work: Arc<Work<R>>,
    context: Context,
    /// Tracks the worker tasks, so that the manager knows when no worker runs any more.
    tracker: TaskTracker,
    tasks: ControllerTasks,
    initial: InitialSets,
    status: ControllerStatus,
    journal: Option<EventJournal<R>>,
}

pub(crate) async fn run<R: RequestKey>(
    parts: ControllerParts<R>,
    start: StartContext,
    status: ControllerStatus,
) -> Result<(), ControllerError> {
    let (name, cancel, grace) = (parts.name.clone(), start.cancel.clone(), start.grace);
    let waiting = status.wait_for(start.cache.clone(), parts.sources.watch_kinds());
    let primary = parts.declared.primary.as_ref();
    let comparing =
        primary.map(|primary| status.compares_with(start.cache.clone(), primary.kind.clone()));
    let (mut running, awaited) = watch(parts, start, status)?;
    let require_sync = running.work.settings.require_sync;
    let life = Lifecycle::new(&name, awaited, require_sync, grace, now());
    let ended = running.live(life, waiting, &cancel).await;
    drop(comparing);
    ended
}

/// Makes the queue, the metrics and the context of a controller, and starts its sources. Returns the kinds that the
/// workers wait for.
fn watch<R: RequestKey>(
    parts: ControllerParts<R>,
    start: StartContext,
    status: ControllerStatus,
) -> Result<(RunningController<R>, Vec<Kind>), ControllerError> {
    let ControllerParts {
        name,
        sources,
        mut options,
        ..
    } = parts;
    let settings = start.defaults.resolve(&name, &options.settings);
    // If the caller has no registry, the metrics are registered in a registry that is never read.
    let registry = start.registry.clone().unwrap_or_default();
    let registrar = Registrar {
        controller: &name,
        registry: &registry,
    };
    let user = |limit: &ReconcileLimit| Ok(limit.user(PermitMetrics::new(&registrar)?));
    let limit = start.defaults.limit.as_ref().map(user).transpose();
    let limit = limit.map_err(|source: prometheus::Error| unregistered(&name, source))?;
    let metrics =
        Metrics::new(&registrar, &status).map_err(|source| unregistered(&name, source))?;
    metrics.workers(settings.max_concurrent_reconciles);
    let source_metrics =
        SourceMetrics::new(&registrar).map_err(|source| unregistered(&name, source))?;
    let queue = queue_of(&name, &mut options, &settings, start.registry.as_ref());
    let queue = queue.map_err(|source| unregistered(&name, source))?;
    let changes = PendingChanges::new();
    let loops = Arc::new(LoopWatch::new(&name, metrics.clone()));
    let journal = start.has_journal.then(EventJournal::new);
    let steps = journal.as_ref().map(|journal| Arc::clone(&journal.steps));
    let client = observed(&start.client, &loops, steps.as_ref());
    let sink = Sink {
        queue: queue.clone(),
        changes: changes.clone(),
        loops: Arc::clone(&loops),
        journal: journal.clone(),
        event_filter: parts.event_filter,
        status: status.clone(),
        metrics: metrics.clone(),
        source_metrics,
        client: client.clone(),
        initial_priority: settings.initial_priority,
        watch: 0,
        cluster: None,
    };
    let tracker = start.workers.clone();
    let mut tasks = ControllerTasks::default();
    let (awaited, initial) = start_sources(sources, &start, sink, &mut tasks)?;
    let overdue = OverdueReconciles::new(settings.longest_reconcile());
    let overdue = report_overdue(overdue, queue.clone(), metrics.clone(), name.clone());
    tasks.spawn_pump(overdue.boxed());
    let shards = Arc::new(ShardedRequests::new(start.shards.clone()));
    tasks.spawn_pump(release(Arc::clone(&shards), queue.clone()).boxed());
    let recent = shown_recent(start.has_journal, &status);
    let stop = start.cancel.child_token();
    let mut context = context_of(&name, client, start, steps.clone());
    context.declare(parts.declared);
    context.cancel_with(stop.clone());
    let work = Work {
        queue,
        settings,
        hooks: parts.hooks,
        limit,
        reconciler: parts.reconciler,
        metrics,
        reconcile_ids: AtomicU64::new(1),
        stop,
        changes,
        loops,
        recent,
        steps,
        shards,
    };
    let running = RunningController {
        work: Arc::new(work),
        context,
        tracker,
        tasks,
        initial,
        status,
        journal,
    };
    Ok((running, awaited))
}

/// Starts the sources of a controller. Returns the kinds that the workers wait for, one per subscription, in the order
/// of the watches; and for each a receiver that resolves when the requests of the initial objects are in the queue.
fn start_sources<R: RequestKey>(
    sources: Sources<R>,
    start: &StartContext,
    mut sink: Sink<R>,
    tasks: &mut ControllerTasks,
) -> Result<(Vec<Kind>, InitialSets), ControllerError> {
    let (mut awaited, mut initial) = (Vec::new(), InitialSets::new());
    for watch in sources.watches {
        let kind = watch.kind().clone();
        sink.metrics.watches(&kind);
        let started = watch.start(&start.cache, &sink);
        for pump in started.map_err(|source| refused(sink.status.controller(), &kind, source))? {
            tasks.spawn_pump(pump.run);
            awaited.push(kind.clone());
            initial.push_back(pump.synced);
        }
        sink.watch += 1;
    }
    for watch in sources.cluster_watches {
        sink.metrics.watches(watch.kind());
        let following = follow(watch, start.clusters.clone(), sink.clone());
        tasks.spawn_pump(following.boxed());
        sink.watch += 1;
    }
    for source in sources.others {
        tasks.spawn_pump(source.run(start.cache.clone(), sink.clone()));
        sink.watch += 1;
    }
    Ok((awaited, initial))
}

// === impl RunningController ===

impl<R: RequestKey> RunningController<R> {
    async fn live(
        &mut self,
        mut life: Lifecycle,
        waiting: StatusGuard<Awaited>,
        cancel: &CancellationToken,
    ) -> Result<(), ControllerError> {
        let work = Arc::clone(&self.work);
        let (mut waiting, mut working) = (Some(waiting), None);
        let inside = self.status.shows_inside(Arc::new(RunningInside {
            queue: work.queue.clone(),
            recent: work.recent.clone(),
            journal: self.journal.clone(),
            loops: Arc::clone(&work.loops),
        }));
        let mut step = LifecycleStep::Wait;
        loop {
            let done = match step {
                LifecycleStep::Wait => None,
                LifecycleStep::Remind(kind) => {
                    remind(&self.status, &kind);
                    None
                }
                LifecycleStep::GiveUp(kind, limit) => {
                    return Err(sync_error(&self.status, kind, limit));
                }
                LifecycleStep::StartWorkers { reminded } => {
                    waiting = None;
                    working = Some(self.show_work());
                    self.start_workers(reminded);
                    None
                }
                LifecycleStep::StopWorkers => {
                    working = None;
                    work.stop.cancel();
                    work.queue.shut_down();
                    self.tasks.abort_pumps();
                    work.metrics.overdue(0);
                    None
                }
                LifecycleStep::AbortWorkers => {
                    let requests = self.tasks.abort_workers(&work.queue).await;
                    Some(LifecycleEvent::WorkersAborted(requests))
                }
                LifecycleStep::AwaitWrites(left) => {
                    await_writes(&self.context, left).await;
                    tracing::info!(
                        controller = self.context.controller(),
                        dropped = work.queue.dropped(),
                        "the controller has stopped; requests that waited are dropped, the next start lists them again"
                    );
                    Some(LifecycleEvent::WritesEnded)
                }
                LifecycleStep::End => break,
            };
            let event = match done {
                Some(event) => event,
                None => self.next_event(&life, cancel).await,
            };
            step = life.handle_event(event, now());
        }
        drop((waiting, working, inside));
        life.finish()
    }

    async fn next_event(&mut self, life: &Lifecycle, cancel: &CancellationToken) -> LifecycleEvent {
        if life.is_stopping() {
            return tokio::select! {
                biased;
                () = self.tasks.workers_ended() => LifecycleEvent::WorkersEnded,
                () = at(life.deadline()) => LifecycleEvent::DeadlinePassed,
            };
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => LifecycleEvent::Cancelled,
            end = self.tasks.ended() => LifecycleEvent::TaskEnded(end),
            () = next_synced(&mut self.initial), if life.is_syncing() => LifecycleEvent::Synced,
            () = at(life.deadline()) => LifecycleEvent::DeadlinePassed,
        }
    }

    /// Shows the counts of the workers and the queue in the status, until the returned guard is dropped.
    fn show_work(&self) -> StatusGuard<ReadProgress> {
        let work = Arc::clone(&self.work);
        self.status.works(move || WorkProgress {
            workers: work.settings.max_concurrent_reconciles,
            ready: work.queue.len(),
            running: work.metrics.active(),
            // Reconcile ids begin with 1, and `reconcile_ids` holds the next id.
            taken: work.reconcile_ids.load(Ordering::Relaxed).saturating_sub(1),
            finished: work.metrics.finished(),
            longest_reconcile: work.settings.longest_reconcile(),
            waits_for_permit: work.limit.as_ref().is_some_and(LimitUser::is_exhausted),
        })
    }

    fn start_workers(&mut self, reminded: bool) {
        let controller = self.status.controller();
        if reminded {
            tracing::info!(
                controller,
                "every kind that the controller waited for has synced: it starts"
            );
        }
        let workers = self.work.settings.max_concurrent_reconciles;
        tracing::debug!(
            controller,
            requests = self.work.queue.len(),
            workers,
            "every watch has synced, the workers start"
        );
        for _ in 0..workers {
            let worker = Worker {
                work: Arc::clone(&self.work),
                context: self.context.clone(),
            };
            let worker = self.tracker.track_future(worker.run());
            self.tasks.spawn_worker(worker.boxed());
        }
    }
}

/// Makes the context of a controller.
fn context_of(
    controller: &str,
    client: Client,
    start: StartContext,
    steps: Option<Arc<StepJournal>>,
) -> Context {
    let events = start.events;
    let events = events.unwrap_or_else(|| default_events(&client, &start.clock));
    let clusters = OtherClusters {
        all: start.clusters,
        steps,
    };
    Context::with_clusters(controller, client, start.clock, clusters, &events)
}

/// Returns the client of a controller. The detector of loops observes its writes, and the journal if there is one.
fn observed(client: &Client, loops: &Arc<LoopWatch>, steps: Option<&Arc<StepJournal>>) -> Client {
    // CTRL-9: this client counts only the writes of this controller, so that the stop of the controller waits for no
    // other writes.
    let client = client.counting_apart();
    let client = client.observed_by(Arc::clone(loops) as Arc<dyn WriteObserver>);
    match steps {
        Some(steps) => steps.observe(&client, None),
        None => client,
    }
}

/// Makes the records of the last reconciles, and shows them in the status.
fn shown_recent<R: RequestKey>(
    has_journal: bool,
    status: &ControllerStatus,
) -> RecentReconciles<R> {
    let recent = RecentReconciles::new(has_journal);
    let shown = recent.clone();
    status.shows_recent(move || shown.read());
    recent
}

/// Passes requests that wait for a slot to the queue when slots open.
async fn release<R: RequestKey>(shards: Arc<ShardedRequests<R>>, queue: Queue<R>) -> PumpEnd {
    shards.release(queue).await
}

/// Makes the queue of a controller, with metrics if there is a registry for them.
fn queue_of<R: RequestKey>(
    name: &str,
    options: &mut Options<R>,
    settings: &ResolvedSettings,
    registry: Option<&Registry>,
) -> Result<Queue<R>, MetricsError> {
    let options = options.queue(name, settings).record_times();
    Ok(Queue::new(match registry {
        Some(registry) => options.metrics(QueueMetrics::new(registry, name)?),
        None => options,
    }))
}

/// Searches every minute for reconciles that take too long, counts them in a gauge, and logs each of them once
/// (CTRL-25). Never ends by itself.
#[expect(
    clippy::infinite_loop,
    reason = "the task is aborted when the controller stops"
)]
async fn report_overdue<R: RequestKey>(
    mut overdue: OverdueReconciles<R>,
    queue: Queue<R>,
    metrics: Metrics,
    controller: String,
) -> PumpEnd {
    loop {
        sleep(BETWEEN_LOOKS).await;
        let found = overdue.look(queue.held_since(), now());
        metrics.overdue(found.count);
        for (request, running_for) in found.new {
            tracing::warn!(
                controller,
                ?request,
                ?running_for,
                running = metrics.active(),
                ready = queue.len(),
                "a reconcile takes too long and occupies a worker: find what it waits for, and set a deadline"
            );
        }
    }
}

/// Waits at most for the time `left` until the writes of a controller are finished: they run in tasks, which the end of
/// the program would abort.
async fn await_writes(context: &Context, left: Duration) {
    let mut clients = context.cluster_clients();
    clients.push(context.client().clone());
    let finished = join_all(clients.iter().map(Client::writes_finished));
    if timeout(left, finished).await.is_err() {
        tracing::warn!(
            controller = context.controller(),
            "a write is still in flight: its outcome is unknown"
        );
    }
}

pub(crate) fn refused(
    controller: &str,
    kind: &Kind,
    source: steersman_cache::Error,
) -> ControllerError {
    ControllerError::Watch {
        controller: controller.to_owned(),
        kind: kind.clone(),
        source,
    }
}

fn unregistered(
    controller: &str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> ControllerError {
    ControllerError::Metrics {
        controller: controller.to_owned(),
        source: Box::new(source),
    }
}
