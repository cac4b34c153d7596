//! Driver: runs one controller: watches, queue and workers, from its start to its end.

mod first_sync;
mod overdue;
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use prometheus::Registry;
use steersman_client::Client;
use steersman_object::Kind;
use steersman_workqueue::{Metrics as QueueMetrics, Queue, QueueOptions};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{at, now};
use crate::context::changes::PendingChanges;
use crate::context::declared::DeclaredKinds;
use crate::context::loop_watch::{LoopWatch, observer};
use crate::context::{Context, default_events};
use crate::error::ControllerError;
use crate::lifecycle::{Lifecycle, LifecycleEvent, LifecycleStep};
use crate::limit::LimitUser;
use crate::metrics::sources::SourceMetrics;
use crate::metrics::{Metrics, PermitMetrics};
use crate::options::{Options, ResolvedSettings};
use crate::reconcile::Reconciler;
use crate::request::RequestKey;
use crate::start::StartContext;
use crate::status::{ControllerStatus, Waiting, WorkProgress, Working};
use crate::watch::in_clusters::follow;
use crate::watch::{EventFilter, PumpEnd, Sink, Sources};
use crate::worker::Worker;
use crate::worker::hooks::Hooks;
use crate::worker::recent_reconciles::RecentReconciles;

use first_sync::{InitialSets, next_synced, remind, sync_error};
use overdue::{BETWEEN_LOOKS, OverdueReconciles};
use tasks::ControllerTasks;

/// The parts of a controller that depend on the types of request and reconciler.
pub(crate) struct ControllerParts<R: RequestKey, C> {
    pub(crate) name: String,
    pub(crate) sources: Sources<R>,
    pub(crate) event_filter: Option<EventFilter>,
    pub(crate) options: Options<R>,
    pub(crate) hooks: Hooks<R>,
    pub(crate) declared: DeclaredKinds,
    pub(crate) reconciler: C,
}

/// A controller with running watches.
struct RunningController<R: RequestKey> {
    queue: Queue<R>,
    tasks: ControllerTasks,
    initial: InitialSets,
    status: ControllerStatus,
    metrics: Metrics,
    changes: PendingChanges<R>,
    loops: Arc<LoopWatch>,
    recent: RecentReconciles<R>,
    client: Client,
}

/// What the workers of one controller share.
struct Work<R, C> {
    settings: ResolvedSettings,
    hooks: Arc<Hooks<R>>,
    limit: Option<LimitUser>,
    /// Tells the manager when no worker runs.
    tracker: TaskTracker,
    worker: WorkerParts<C>,
}

struct WorkerParts<C> {
    context: Context,
    reconciler: Arc<C>,
    reconcile_ids: Arc<AtomicU64>,
    stop: CancellationToken,
}

/// Runs a controller until it is cancelled or fails.
pub(crate) async fn run<R: RequestKey, C: Reconciler<R>>(
    mut parts: ControllerParts<R, C>,
    start: StartContext,
    status: ControllerStatus,
) -> Result<(), ControllerError> {
    let name = parts.name.clone();
    let kinds: Vec<Kind> = parts.sources.watch_kinds();
    let waiting = status.wait_for(start.cache.clone(), kinds);
    let settings = start.defaults.resolve(&name, &parts.options.settings);
    let limit = limit_user(&name, &start)?;
    let primary = parts.declared.primary.as_ref();
    let comparing =
        primary.map(|primary| status.compares_with(start.cache.clone(), primary.kind.clone()));
    let (mut running, awaited) = watch(&mut parts, &settings, &start, status)?;
    let life = Lifecycle::new(&name, awaited, settings.require_sync, start.grace, now());
    let stop = start.cancel.child_token();
    let client = running.client.clone();
    let events = start.events.as_ref();
    let events = events.map_or_else(|| default_events(&client, &start.clock), Clone::clone);
    let mut context = Context::with_clusters(&name, client, start.clock, start.clusters, &events);
    context.declare(parts.declared);
    context.cancel_with(stop.clone());
    let work = Work {
        settings,
        hooks: Arc::new(parts.hooks),
        limit,
        tracker: start.workers,
        worker: WorkerParts {
            context,
            reconciler: Arc::new(parts.reconciler),
            reconcile_ids: Arc::new(AtomicU64::new(1)),
            stop,
        },
    };
    let ended = running.live(life, work, waiting, &start.cancel).await;
    drop(comparing);
    ended
}

/// Starts the watches and sources of a controller. Returns the kinds that have to sync, one per
/// subscription, in the order of the watches.
fn watch<R: RequestKey, C>(
    parts: &mut ControllerParts<R, C>,
    settings: &ResolvedSettings,
    start: &StartContext,
    status: ControllerStatus,
) -> Result<(RunningController<R>, Vec<Kind>), ControllerError> {
    let name = &parts.name;
    let registry = start.registry.as_ref();
    let metrics = Metrics::new(&status, registry).map_err(|source| unregistered(name, source))?;
    metrics.workers(settings.max_concurrent_reconciles);
    let source_metrics =
        SourceMetrics::new(name, registry).map_err(|source| unregistered(name, source))?;
    let queue = queue(name, parts.options.queue(name, settings), registry)?;
    let mut tasks = ControllerTasks::default();
    let (mut awaited, mut initial) = (Vec::new(), InitialSets::new());
    let changes = PendingChanges::new();
    let loops = Arc::new(LoopWatch::new(name, metrics.clone()));
    // CTRL-9: a client that counts only the writes of this controller.
    let client = start.client.counting_apart();
    let client = client.observed_by(observer(&loops));
    let mut sink = Sink {
        queue: queue.clone(),
        changes: changes.clone(),
        loops: Arc::clone(&loops),
        event_filter: parts.event_filter.clone(),
        status: status.clone(),
        metrics: metrics.clone(),
        source_metrics,
        client: client.clone(),
        initial_priority: settings.initial_priority,
        watch: 0,
        cluster: None,
    };
    for watch in parts.sources.watches.drain(..) {
        let kind = watch.kind().clone();
        metrics.watches(&kind);
        let pumps = watch.start(&start.cache, &sink);
        for pump in pumps.map_err(|source| refused(name, &kind, source))? {
            tasks.pumps.spawn(pump.run);
            awaited.push(kind.clone());
            initial.push_back(pump.synced);
        }
        sink.watch += 1;
    }
    for watch in parts.sources.cluster_watches.drain(..) {
        metrics.watches(watch.kind());
        let following = follow(watch, start.clusters.clone(), sink.clone());
        tasks.pumps.spawn(following);
        sink.watch += 1;
    }
    for source in parts.sources.others.drain(..) {
        tasks.pumps.spawn(source.run(&start.cache, sink.clone()));
        sink.watch += 1;
    }
    let overdue = OverdueReconciles::new(settings.longest_reconcile());
    tasks.pumps.spawn(report_overdue(
        overdue,
        queue.clone(),
        metrics.clone(),
        name.clone(),
    ));
    let recent = RecentReconciles::new();
    let shown = recent.clone();
    status.shows_recent(move || shown.read());
    let running = RunningController {
        queue,
        tasks,
        initial,
        status,
        metrics,
        changes,
        loops,
        recent,
        client,
    };
    Ok((running, awaited))
}

// === impl ControllerParts ===

impl<R: RequestKey, C> ControllerParts<R, C> {
    /// Replaces the reconciler.
    pub(crate) fn map<D>(self, change: impl FnOnce(C) -> D) -> ControllerParts<R, D> {
        ControllerParts {
            name: self.name,
            sources: self.sources,
            event_filter: self.event_filter,
            options: self.options,
            hooks: self.hooks,
            declared: self.declared,
            reconciler: change(self.reconciler),
        }
    }
}

// === impl RunningController ===

impl<R: RequestKey> RunningController<R> {
    async fn live<C: Reconciler<R>>(
        &mut self,
        mut life: Lifecycle,
        work: Work<R, C>,
        waiting: Waiting,
        cancel: &CancellationToken,
    ) -> Result<(), ControllerError> {
        let controller = self.status.controller().to_owned();
        let (mut waiting, mut working) = (Some(waiting), None);
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
                    working = Some(self.show_work(&work));
                    self.start_workers(&work, reminded);
                    None
                }
                LifecycleStep::StopWorkers => {
                    working = None;
                    work.worker.stop.cancel();
                    self.queue.shut_down();
                    self.tasks.pumps.abort_all();
                    self.metrics.overdue(0);
                    None
                }
                LifecycleStep::AbortWorkers => {
                    let requests = self.tasks.abort_workers(&self.queue).await;
                    Some(LifecycleEvent::WorkersAborted(requests))
                }
                LifecycleStep::AwaitWrites(left) => {
                    await_writes(&controller, &work.worker.context, left).await;
                    tracing::info!(
                        controller,
                        dropped = self.queue.dropped(),
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
        drop((waiting, working));
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

    /// Shows the progress of the workers in the status.
    fn show_work<C: Reconciler<R>>(&self, work: &Work<R, C>) -> Working {
        let (queue, metrics) = (self.queue.clone(), self.metrics.clone());
        let ids = Arc::clone(&work.worker.reconcile_ids);
        let workers = work.settings.max_concurrent_reconciles;
        let limit = work.limit.clone();
        let longest_reconcile = work.settings.longest_reconcile();
        self.status.works(move || WorkProgress {
            workers,
            ready: queue.len(),
            running: metrics.active(),
            // The first reconcile has the id 1.
            taken: ids.load(Ordering::Relaxed).saturating_sub(1),
            finished: metrics.finished(),
            longest_reconcile,
            waits_for_permit: limit.as_ref().is_some_and(LimitUser::is_exhausted),
        })
    }

    fn start_workers<C: Reconciler<R>>(&mut self, work: &Work<R, C>, reminded: bool) {
        let controller = self.status.controller();
        if reminded {
            tracing::info!(
                controller,
                "every kind that the controller waited for has synced: it starts"
            );
        }
        let workers = work.settings.max_concurrent_reconciles;
        tracing::debug!(
            controller,
            requests = self.queue.len(),
            workers,
            "every watch has synced, the workers start"
        );
        for _ in 0..workers {
            let worker = self.worker(work).run();
            self.tasks.workers.spawn(work.tracker.track_future(worker));
        }
    }

    fn worker<C: Reconciler<R>>(&self, work: &Work<R, C>) -> Worker<R, C> {
        let parts = &work.worker;
        Worker {
            queue: self.queue.clone(),
            limit: work.limit.clone(),
            reconciler: Arc::clone(&parts.reconciler),
            context: parts.context.clone(),
            metrics: self.metrics.clone(),
            reconcile_ids: Arc::clone(&parts.reconcile_ids),
            stop: parts.stop.clone(),
            deadline: work.settings.deadline,
            deadline_grace: work.settings.deadline_grace,
            max_retries: work.settings.max_retries,
            changes: self.changes.clone(),
            loops: Arc::clone(&self.loops),
            recent: self.recent.clone(),
            hooks: Arc::clone(&work.hooks),
        }
    }
}

/// Makes the controller a user of the shared limit, if there is one.
fn limit_user(name: &str, start: &StartContext) -> Result<Option<LimitUser>, ControllerError> {
    let Some(limit) = start.defaults.limit() else {
        return Ok(None);
    };
    let metrics = PermitMetrics::new(name).map_err(|source| unregistered(name, source))?;
    if let Some(registry) = &start.registry {
        let registered = metrics.register(registry);
        registered.map_err(|source| unregistered(name, source))?;
    }
    Ok(Some(limit.user(metrics)))
}

fn queue<R: RequestKey>(
    name: &str,
    options: QueueOptions<R>,
    registry: Option<&Registry>,
) -> Result<Queue<R>, ControllerError> {
    let mut options = options.record_times();
    if let Some(registry) = registry {
        let metrics = QueueMetrics::new(registry, name);
        options = options.metrics(metrics.map_err(|source| unregistered(name, source))?);
    }
    Ok(Queue::new(options))
}

/// Logs and counts reconciles that take too long (CTRL-25). Never ends by itself.
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

/// Waits for the writes of a controller. They run in separate tasks, which the end of the program
/// would abort.
async fn await_writes(controller: &str, context: &Context, left: Duration) {
    let mut clients = context.cluster_clients();
    clients.push(context.client().clone());
    let finished = join_all(clients.iter().map(Client::writes_finished));
    if timeout(left, finished).await.is_err() {
        tracing::warn!(
            controller,
            "a write is still in flight: its outcome is unknown"
        );
    }
}

/// Returns the error of a controller if the cache refuses one of its kinds.
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
