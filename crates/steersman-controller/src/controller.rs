//! Handle: a controller that was declared, and its life from start to end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use prometheus::Registry;
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_object::{Kind, panic_text};
use steersman_workqueue::{Metrics as QueueMetrics, Queue, QueueOptions, RateLimiter};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::ControllerError;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::reconcile::Reconciler;
use crate::request::RequestKey;
use crate::source::feed;
use crate::start::StartContext;
use crate::status::ControllerStatus;
use crate::watch::{AnyWatch, FilterAll, PumpEnd, Sink};
use crate::worker::Worker;

/// How long aborted reconciles may take to be gone.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// A controller: watches that cause requests, and workers that reconcile them.
///
/// Made with [`Controller::builder`](crate::Controller::builder); it does nothing until it is started.
#[must_use = "a controller does nothing until it is started"]
pub struct Controller {
    name: String,
    field_manager: Option<String>,
    kinds: Vec<Kind>,
    status: ControllerStatus,
    body: Box<dyn AnyBody>,
}

/// Everything that depends on the types of request and reconciler.
pub(crate) struct Body<R: RequestKey, C> {
    pub(crate) name: String,
    pub(crate) watches: Vec<Box<dyn AnyWatch<R>>>,
    pub(crate) streams: Vec<BoxStream<'static, R>>,
    pub(crate) filter_all: Option<FilterAll>,
    pub(crate) options: Options<R>,
    pub(crate) reconciler: C,
}

trait AnyBody: Send {
    fn declare(&self, cache: &Cache) -> Result<(), ControllerError>;
    fn run(
        self: Box<Self>,
        start: StartContext,
        status: ControllerStatus,
    ) -> BoxFuture<'static, Result<(), ControllerError>>;
}

// The tasks of a controller that feed its queue, and those that work it off. Dropping them aborts
// the tasks, so nothing outlives the future of `start`.
struct Tasks {
    controller: String,
    pumps: JoinSet<PumpEnd>,
    workers: JoinSet<()>,
}

// === impl Controller ===

impl Controller {
    pub(crate) fn new<R: RequestKey, C: Reconciler<R>>(body: Body<R, C>) -> Self {
        Self {
            name: body.name.clone(),
            field_manager: None,
            kinds: body
                .watches
                .iter()
                .map(|watch| watch.kind().clone())
                .collect(),
            status: ControllerStatus::new(&body.name),
            body: Box::new(body),
        }
    }

    /// The name, which is unique among the controllers of a manager.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field manager that it was declared with, where it was:
    /// [`Builder::field_manager`](crate::Builder::field_manager).
    #[must_use]
    pub fn field_manager(&self) -> Option<&str> {
        self.field_manager.as_deref()
    }

    pub(crate) fn signing(mut self, field_manager: Option<String>) -> Self {
        self.field_manager = field_manager;
        self
    }

    /// The kinds that it watches, in the order in which they were declared, the primary kind first.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// How the controller is doing, to be read while it runs: [`start`](Self::start) takes the controller
    /// itself.
    pub fn status(&self) -> ControllerStatus {
        self.status.clone()
    }

    /// Makes the watched kinds known to a cache, so that the cache can sync them before this
    /// controller is started. It asks nothing of a cluster.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Watch`] where the options of the cache exclude a kind.
    pub fn declare(&self, cache: &Cache) -> Result<(), ControllerError> {
        self.body.declare(cache)
    }

    /// Runs the controller until it is cancelled.
    ///
    /// It subscribes to every watched kind, waits until the initial set of each is in the queue, and
    /// only then starts its workers (CTRL-1). A kind that is missing or forbidden is waited for, without
    /// a limit unless [`require_sync`](crate::Builder::require_sync) sets one (CTRL-7). When `start.cancel` fires,
    /// [`Context::cancelled`](crate::Context::cancelled) fires, no further request is taken, what runs
    /// may finish within the grace and is dropped past it, and what waits is dropped: the next start
    /// lists it again.
    ///
    /// # Errors
    ///
    /// Where the cache refuses a kind or stops watching one, where a kind does not sync in the time of
    /// `require_sync`, and where a task of the controller or a stream of requests panics. Errors of single
    /// reconciles are retried, and a panic of a predicate or handler costs its event: neither ends a
    /// controller. [`ControllerError::StillRunning`] where reconciles had to
    /// be dropped at the end of the grace.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the controller without a grace.
    pub fn start(
        self,
        start: StartContext,
    ) -> impl Future<Output = Result<(), ControllerError>> + Send + 'static {
        self.body.run(start, self.status)
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

// === impl Body ===

impl<R: RequestKey, C: Reconciler<R>> AnyBody for Body<R, C> {
    fn declare(&self, cache: &Cache) -> Result<(), ControllerError> {
        for watch in &self.watches {
            let declared = watch.declare(cache);
            declared.map_err(|source| refused(&self.name, watch.kind(), source))?;
        }
        Ok(())
    }

    fn run(
        self: Box<Self>,
        start: StartContext,
        status: ControllerStatus,
    ) -> BoxFuture<'static, Result<(), ControllerError>> {
        (*self).live(start, status).boxed()
    }
}

impl<R: RequestKey, C: Reconciler<R>> Body<R, C> {
    async fn live(
        self,
        start: StartContext,
        status: ControllerStatus,
    ) -> Result<(), ControllerError> {
        let name = self.name.clone();
        let metrics = self.metrics(&status, start.registry.as_ref())?;
        metrics.workers(self.options.max_concurrent_reconciles);
        let queue_metrics = self.queue_metrics(start.registry.as_ref())?;
        let mut options = self.options;
        let queue = queue(&name, options.rate_limiter.take(), queue_metrics);
        let kinds = self.watches.iter().map(|watch| watch.kind().clone());
        let waiting = status.wait_for(start.cache.clone(), kinds.collect());

        let mut tasks = Tasks::new(&name);
        let mut initial = Vec::new();
        for (number, watch) in self.watches.into_iter().enumerate() {
            let kind = watch.kind().clone();
            metrics.watches(&kind);
            let sink = Sink {
                queue: queue.clone(),
                filter_all: self.filter_all.clone(),
                status: status.clone(),
                metrics: metrics.clone(),
                watch: number,
            };
            let pumps = watch.start(&start.cache, &sink);
            for pump in pumps.map_err(|source| refused(&name, &kind, source))? {
                tasks.pumps.spawn(pump.run);
                initial.push((kind.clone(), pump.synced));
            }
        }
        for stream in self.streams {
            tasks.pumps.spawn(feed(stream, queue.clone()));
        }

        // CTRL-1: no worker exists before every initial set is in the queue.
        let gate = Gate {
            status,
            initial,
            limit: options.require_sync,
        };
        tokio::select! {
            biased;
            () = start.cancel.cancelled() => return Ok(()),
            end = tasks.ended() => return Err(end),
            passed = gate.passed() => passed?,
        }
        drop(waiting);
        tracing::debug!(
            controller = name,
            requests = queue.len(),
            workers = options.max_concurrent_reconciles,
            "every watch has synced, the workers start"
        );

        let stop = start.cancel.child_token();
        // CTRL-9: counts the writes of this controller alone.
        let client = start.client.counting_apart();
        let mut context = Context::detached(&name, client.clone(), start.clock);
        context.cancel_with(stop.clone());
        let worker = WorkerParts {
            context,
            reconciler: Arc::new(self.reconciler),
            reconcile_ids: Arc::new(AtomicU64::new(1)),
            metrics,
            stop: stop.clone(),
        };
        for _ in 0..options.max_concurrent_reconciles {
            tasks.workers.spawn(worker.one(&queue, &options).run());
        }

        let end = tokio::select! {
            biased;
            () = start.cancel.cancelled() => Ok(()),
            end = tasks.ended() => Err(end),
        };
        stop.cancel();
        queue.shut_down();
        let began = Instant::now();
        let finished = tasks.finish(&queue, start.grace).await;
        let left = start.grace.saturating_sub(began.elapsed());
        see_writes_out(&name, &client, left).await;
        tracing::info!(
            controller = name,
            dropped = queue.dropped(),
            "the controller has stopped; requests that waited are dropped, the next start lists them again"
        );
        end.and(finished)
    }

    fn metrics(
        &self,
        status: &ControllerStatus,
        registry: Option<&Registry>,
    ) -> Result<Metrics, ControllerError> {
        Metrics::new(status, registry).map_err(|source| ControllerError::Metrics {
            controller: self.name.clone(),
            source: Box::new(source),
        })
    }

    fn queue_metrics(
        &self,
        registry: Option<&Registry>,
    ) -> Result<Option<QueueMetrics>, ControllerError> {
        let metrics = registry.map(|registry| QueueMetrics::new(registry, &self.name));
        metrics
            .transpose()
            .map_err(|source| ControllerError::Metrics {
                controller: self.name.clone(),
                source: Box::new(source),
            })
    }
}

// What the workers of one controller have in common.
struct WorkerParts<C> {
    context: Context,
    reconciler: Arc<C>,
    reconcile_ids: Arc<AtomicU64>,
    metrics: Metrics,
    stop: CancellationToken,
}

impl<C> WorkerParts<C> {
    fn one<R: RequestKey>(&self, queue: &Queue<R>, options: &Options<R>) -> Worker<R, C> {
        Worker {
            queue: queue.clone(),
            reconciler: Arc::clone(&self.reconciler),
            context: self.context.clone(),
            metrics: self.metrics.clone(),
            reconcile_ids: Arc::clone(&self.reconcile_ids),
            stop: self.stop.clone(),
            deadline: options.deadline,
            deadline_grace: options.deadline_grace,
        }
    }
}

// === impl Tasks ===

impl Tasks {
    fn new(controller: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            pumps: JoinSet::new(),
            workers: JoinSet::new(),
        }
    }

    // Waits until a task ends that should not have.
    async fn ended(&mut self) -> ControllerError {
        loop {
            tokio::select! {
                Some(end) = self.pumps.join_next(), if !self.pumps.is_empty() => match end {
                    Ok(end) => {
                        if let Some(error) = self.pump_error(end) {
                            return error;
                        }
                    }
                    Err(error) => return self.panicked("watch", error),
                },
                Some(Err(error)) = self.workers.join_next(), if !self.workers.is_empty() => {
                    return self.panicked("worker", error);
                }
                else => std::future::pending().await,
            }
        }
    }

    fn pump_error(&self, end: PumpEnd) -> Option<ControllerError> {
        let controller = self.controller.clone();
        match end {
            PumpEnd::Finished => None,
            PumpEnd::Stopped { kind } => Some(ControllerError::WatchEnded { controller, kind }),
            PumpEnd::StreamPanicked { message } => Some(ControllerError::TaskPanicked {
                controller,
                task: "stream of requests",
                message,
            }),
        }
    }

    fn panicked(&self, task: &'static str, error: JoinError) -> ControllerError {
        ControllerError::TaskPanicked {
            controller: self.controller.clone(),
            task,
            message: match error.try_into_panic() {
                Ok(payload) => panic_text(&*payload).to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    // Lets the workers come to their end within the grace, and aborts those that do not.
    async fn finish<R: RequestKey>(
        mut self,
        queue: &Queue<R>,
        grace: Duration,
    ) -> Result<(), ControllerError> {
        self.pumps.abort_all();
        let all_end = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all_end).await.is_ok() {
            return Ok(());
        }
        // Looked up while they still hold their tickets.
        let mut requests: Vec<String> = queue
            .held()
            .iter()
            .map(|request| format!("{request:?}"))
            .collect();
        requests.sort();
        self.workers.abort_all();
        // A reconcile that blocks its thread cannot be aborted, and must not hold up the rest.
        let all_end = async { while self.workers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(ABORT_GRACE, all_end).await;
        Err(ControllerError::StillRunning {
            controller: self.controller,
            requests,
            grace,
        })
    }
}

fn queue<R: RequestKey>(
    name: &str,
    rate_limiter: Option<Box<dyn RateLimiter<R>>>,
    metrics: Option<QueueMetrics>,
) -> Queue<R> {
    let mut options = QueueOptions::new(name);
    if let Some(rate_limiter) = rate_limiter {
        options = options.rate_limiter(Guarded::new(name, rate_limiter));
    }
    if let Some(metrics) = metrics {
        options = options.metrics(metrics);
    }
    Queue::new(options)
}

// Writes outlive the reconciles that sent them, and must not be cut off in the middle by the end of the
// program.
async fn see_writes_out(controller: &str, client: &Client, left: Duration) {
    if tokio::time::timeout(left, client.writes_finished())
        .await
        .is_err()
    {
        tracing::warn!(
            controller,
            "a write is still on its way: its outcome is unknown"
        );
    }
}

fn refused(controller: &str, kind: &Kind, source: steersman_cache::Error) -> ControllerError {
    ControllerError::Watch {
        controller: controller.to_owned(),
        kind: kind.clone(),
        source,
    }
}
