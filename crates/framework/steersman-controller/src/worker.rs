//! Driver: one worker: takes a request from the queue, calls the reconciler, and tells the queue what follows.

pub(crate) mod hooks;
pub(crate) mod kept;
pub(crate) mod reconcile_groups;
pub(crate) mod recent_reconciles;
pub(crate) mod sharded_requests;
mod spans;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use prometheus::IntGauge;
use steersman_api::clock::now;
use steersman_object::{Jitter, Kind, panic_text};
use steersman_shards::ShardPermit;
use steersman_workqueue::{Causes, Queue, ShutDown, Ticket, Verdict};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Span;
use tracing::field::Empty;

use crate::action::Action;
use crate::context::changes::PendingChanges;
use crate::context::event_journal::StepJournal;
use crate::context::loop_watch::LoopWatch;
use crate::context::reason::{EVENT, RunReason};
use crate::context::{Context, Run};
use crate::error::{Error, NoResult};
use crate::journal::recent::ReconcileResult;
use crate::limit::{LimitUser, Permit};
use crate::metrics::Metrics;
use crate::options::ResolvedSettings;
use crate::outcome::{Label, RunLimits, outcome};
use crate::reconcile::{BoxReconciler, Reconciler};
use crate::request::{ClusterName, RequestKey, requested_object};
use crate::worker::hooks::Hooks;
use crate::worker::kept::Kept;
use crate::worker::recent_reconciles::RecentReconciles;
use crate::worker::sharded_requests::{Admission, ShardedRequests};
use crate::worker::spans::{InSpan, link_events, record_end};

/// The parts that the workers of one controller share.
pub(crate) struct Work<R: RequestKey> {
    pub(crate) queue: Queue<R>,
    pub(crate) settings: ResolvedSettings,
    pub(crate) hooks: Hooks<R>,
    pub(crate) limit: Option<LimitUser>,
    pub(crate) reconciler: BoxReconciler<R>,
    pub(crate) metrics: Metrics,
    pub(crate) reconcile_ids: AtomicU64,
    pub(crate) stop: CancellationToken,
    pub(crate) changes: PendingChanges<R>,
    pub(crate) loops: Arc<LoopWatch>,
    pub(crate) recent: RecentReconciles<R>,
    /// The steps of running reconciles; `None` without a journal.
    pub(crate) steps: Option<Arc<StepJournal>>,
    pub(crate) shards: Arc<ShardedRequests<R>>,
}

/// Takes requests from the queue and reconciles them, one at a time.
pub(crate) struct Worker<R: RequestKey> {
    pub(crate) work: Arc<Work<R>>,
    /// The context of the current reconcile; before the first reconcile, the context of the controller.
    pub(crate) context: Context,
}

/// Keeps a reconcile counted in the gauge of active reconciles until this value is dropped, also if its task is
/// aborted.
struct Active<'a>(&'a IntGauge);

/// The longest time of a write.
const LONGEST_WRITE: Duration = Duration::from_secs(65);

// === impl Worker ===

impl<R: RequestKey> Worker<R> {
    /// Takes requests and reconciles them, until the queue is shut down.
    pub(crate) async fn run(mut self) {
        while let Ok((ticket, permit)) = self.next().await {
            let permit_wait = permit.as_ref().map(Permit::waited);
            // CTRL-8: a panic outside the reconciler drops the ticket, which counts as a failure of this request alone.
            let worked = AssertUnwindSafe(self.handle(ticket, permit_wait))
                .catch_unwind()
                .await;
            if let Err(payload) = worked {
                self.work.metrics.panicked();
                tracing::error!(
                    controller = self.context.controller(),
                    panic = %panic_text(&*payload),
                    "the clock or the formatting of a request panicked; the request is tried again with \
                     backoff: correct it"
                );
            }
            drop(permit);
            // Yields regularly: otherwise a worker with a full queue and a reconciler that never waits would occupy its
            // thread.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Takes the next request from the queue as a ticket, with a permit if the controller shares a limit (CTRL-10).
    async fn next(&self) -> Result<(Ticket<R>, Option<Permit>), ShutDown> {
        match &self.work.limit {
            None => Ok((self.work.queue.next().await?, None)),
            Some(limit) => {
                let (ticket, permit) = self.work.queue.next_with(|| limit.permit()).await?;
                Ok((ticket, Some(permit)))
            }
        }
    }

    async fn handle(&mut self, ticket: Ticket<R>, permit_wait: Option<Duration>) {
        // The permit is dropped last: the slot goes to no other replica before (SHARD-1).
        let permit = match self.work.shards.admit(ticket.key()) {
            Admission::Reconcile(permit) => permit,
            Admission::Hold => {
                let request = ticket.key().clone();
                ticket.end(Verdict::Settle);
                return self.work.shards.hold(request, &self.work.queue);
            }
            Admission::Foreign => {
                tracing::debug!(request = ?ticket.key(), "another replica owns the object");
                drop(self.work.changes.take(ticket.key()));
                ticket.end(Verdict::Forget);
                return;
            }
        };
        // The memory order is relaxed, because the ids only have to be unique.
        let reconcile_id = self.work.reconcile_ids.fetch_add(1, Ordering::Relaxed);
        // Takes the changes before the span is made: a panic in the formatting for the span would leave them in the
        // table.
        let run = self.run_of(&ticket, reconcile_id);
        let span = self.span(ticket.key(), reconcile_id);
        self.context.begin(ticket.key(), run);
        if let Some(steps) = &self.work.steps {
            // A write of an earlier reconcile that was dropped may have ended since.
            drop(steps.take(self.context.request()));
        }
        if let Some(request) = self.context.request() {
            self.work.loops.begin(request, self.context.reason());
        }
        // A reconcile with a deadline has a cancellation token of its own, because its deadline cancels the token.
        // Other reconciles use `stop`.
        if self.work.settings.deadline.is_some() {
            self.context.cancel_with(self.work.stop.child_token());
        }
        let active = &self.work.metrics.active;
        active.inc();
        let _active = Active(active);
        let start = Instant::now();
        InSpan::new(span, async {
            tracing::debug!(reason = %self.context.reason(), "reconcile begins");
            link_events(self.context.reason());
            let result = self.reconcile_with(permit.as_ref(), ticket.key()).await;
            let Some(result) = result else {
                // The object is reconciled again when this replica may work: that is no failure.
                tracing::warn!(
                    "reconcile was dropped: the Lease of this replica was not renewed in time"
                );
                let request = ticket.key().clone();
                ticket.end(Verdict::Settle);
                return self.work.shards.hold(request, &self.work.queue);
            };
            let time = start.elapsed();
            self.report(ticket.key(), &result).await;
            let (attempt, label) = (ticket.attempts(), self.finish(ticket, &result, time));
            record_end(attempt, label, permit_wait);
            let no_result = result.as_ref().err().and_then(|error| error.downcast_ref());
            let is_dropped = matches!(no_result, Some(NoResult::TimedOut));
            // SHARD-1: a write of a reconcile that was dropped may still be in flight.
            if let Some(permit) = permit.filter(|_| is_dropped) {
                self.keep_while_writing(permit);
            }
        })
        .await;
    }

    /// Keeps a slot until the writes of this controller have ended, at most as long as a request may take.
    fn keep_while_writing(&self, permit: ShardPermit) {
        let client = self.context.client().clone();
        tokio::spawn(async move {
            let _ended = timeout(LONGEST_WRITE, client.writes_finished()).await;
            drop(permit);
        });
    }

    /// Makes the span of a reconcile, with the field names that controller-runtime logs.
    fn span(&self, request: &R, reconcile_id: u64) -> Span {
        let gvk = self.context.primary_kind().map(Kind::gvk);
        let object = requested_object(request);
        let key = object.map(|(_, key)| key);
        let other = object.is_none().then(|| tracing::field::debug(request));
        tracing::error_span!(
            "reconcile",
            controller = self.context.controller(),
            controllerGroup = gvk.map(|gvk| gvk.group()),
            controllerKind = gvk.map(|gvk| gvk.kind()),
            cluster = object
                .and_then(|(cluster, _)| cluster)
                .map(ClusterName::as_str),
            namespace = key.and_then(|key| key.namespace()),
            name = key.map(|key| key.name()),
            request = other,
            reconcileID = reconcile_id,
            attempt = Empty,
            result = Empty,
            permitWait = Empty,
        )
    }

    /// Returns the part of the context that differs between the runs of a request.
    fn run_of(&self, ticket: &Ticket<R>, reconcile_id: u64) -> Run {
        let (attempt, causes) = (ticket.attempts(), ticket.causes());
        // Changes are recorded only for requests that a live event caused, so other runs need no lock of the table.
        let changes = match causes.contains(EVENT) {
            true => self.work.changes.take(ticket.key()),
            false => Default::default(),
        };
        // CTRL-21: the run is the last retry if the limit of retries is reached. A run that an event causes before a
        // retry is due is no retry (WQ-11).
        let is_last_attempt = self.work.settings.max_retries.is_some_and(|retries| {
            attempt >= retries && (retries == 0 || causes.contains(Causes::BACKOFF))
        });
        Run {
            reconcile_id,
            attempt,
            is_last_attempt,
            reason: RunReason::new(causes, changes, attempt),
        }
    }

    /// Calls the reconciler. Returns `None` if the reconcile was dropped because this replica has lost its Lease
    /// meanwhile (SHARD-3).
    async fn reconcile_with(
        &self,
        permit: Option<&ShardPermit>,
        request: &R,
    ) -> Option<Result<Action, Error>> {
        let run = self.reconcile(request.clone());
        let Some(permit) = permit else {
            return Some(run.await);
        };
        tokio::select! {
            biased;
            result = run => Some(result),
            () = permit.lost() => None,
        }
    }

    /// Calls the reconciler. The error of a panic, and of a reconcile that was dropped past its deadline, is a
    /// [`NoResult`].
    async fn reconcile(&self, request: R) -> Result<Action, Error> {
        // CTRL-2: both the call of the reconciler and the returned future may panic, so both are in the block. The
        // author of a reconciler is responsible for its state after a panic, so `AssertUnwindSafe` is used.
        let run = async { self.work.reconciler.reconcile(&self.context, request).await };
        let run = AssertUnwindSafe(run).catch_unwind();
        let Some(deadline) = self.work.settings.deadline else {
            return result_of(run.await);
        };
        let mut run = Box::pin(run);
        if let Ok(end) = timeout(deadline, &mut run).await {
            return result_of(end);
        }
        self.work.metrics.timeouts.inc();
        self.context.cancel();
        if let Ok(end) = timeout(self.work.settings.deadline_grace, &mut run).await {
            return result_of(end);
        }
        let dropped = catch_unwind(AssertUnwindSafe(move || drop(run)));
        result_of(dropped.map(|()| Err(NoResult::TimedOut.into())))
    }

    /// Calls the hook for failed reconciles (CTRL-23). The request does not run again until the hook has returned.
    async fn report(&self, request: &R, result: &Result<Action, Error>) {
        let (Some(on_error), Err(error)) = (&self.work.hooks.on_error, result) else {
            return;
        };
        let report = AssertUnwindSafe(on_error(&self.context, request, error)).catch_unwind();
        match timeout(self.work.settings.deadline_grace, report).await {
            Ok(Ok(())) => {}
            Ok(Err(payload)) => tracing::error!(
                panic = %panic_text(&*payload),
                "the hook for errors panicked and the failure is not reported: correct the hook"
            ),
            Err(_) => tracing::warn!(
                limit = ?self.work.settings.deadline_grace,
                "the hook for errors was dropped: it took longer than the grace of a deadline"
            ),
        }
    }

    fn limits(&self, request: &R) -> RunLimits {
        let every = self.work.hooks.at_least_every.as_ref();
        // CTRL-22: only the request of an object that exists runs again within the interval.
        let every = every.filter(|every| (every.exists)(self.context.client().cache(), request));
        RunLimits {
            is_last: self.context.is_last_attempt(),
            at_least_every: every.map(|every| {
                // Shortens the interval by up to a tenth, so that requests that run together at the start do not stay
                // together. The fraction is a hash of the request and the number of its reconcile.
                let mut hasher = DefaultHasher::new();
                (request, self.context.reconcile_id()).hash(&mut hasher);
                let early = Jitter::new(hasher.finish()).fraction() / 10.0;
                every.interval.mul_f64(1.0 - early)
            }),
        }
    }

    /// Ends the ticket as the result asks, and returns the label of the result.
    fn finish(
        &self,
        mut ticket: Ticket<R>,
        result: &Result<Action, Error>,
        time: Duration,
    ) -> Label {
        let attempt = ticket.attempts();
        let limits = self.limits(ticket.key());
        let outcome = outcome(result, limits, || self.context.now());
        // The reconcile is counted before its ticket ends, because the ticket's end has visible effects, such as the
        // next run of the request, and the metrics must not lag behind them.
        self.work.metrics.ended(outcome.label, time);
        if let Err(error) = result {
            match error.downcast_ref() {
                Some(NoResult::Panicked(_)) => self.work.metrics.panicked(),
                _ => self.work.metrics.failed(error.is_terminal()),
            }
        }
        if outcome.gave_up {
            self.work.metrics.gave_up.inc();
        }
        if let Some(priority) = outcome.priority {
            ticket.set_next_priority(priority);
        }
        let request = ticket.key().clone();
        // Taken before the ticket ends, because then the next run of the request may begin.
        let steps = self.work.steps.as_ref();
        let steps = steps.map(|steps| steps.take(self.context.request()));
        let next_in = ticket.end(outcome.verdict);
        if let Err(error) = result {
            log_failure(error, attempt, next_in, outcome.gave_up);
        }
        self.work.recent.keep(Kept {
            id: self.context.reconcile_id(),
            request,
            reason: self.context.reason().clone(),
            attempt,
            result: recent_result(result),
            time,
            ended: now(),
            next_in,
            steps: steps.unwrap_or_default(),
        });
        outcome.label
    }
}

// === impl Active ===

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns the result of a reconcile that has ended; the error of a panic is [`NoResult::Panicked`].
fn result_of(end: std::thread::Result<Result<Action, Error>>) -> Result<Action, Error> {
    end.unwrap_or_else(|payload| Err(NoResult::Panicked(panic_text(&*payload).to_owned()).into()))
}

fn recent_result(result: &Result<Action, Error>) -> ReconcileResult {
    let Err(error) = result else {
        return ReconcileResult::Success;
    };
    match error.downcast_ref() {
        Some(NoResult::Panicked(message)) => ReconcileResult::Panicked(message.clone()),
        Some(NoResult::TimedOut) => ReconcileResult::TimedOut,
        None => ReconcileResult::Failed(error.chain()),
    }
}

/// Logs a failed reconcile. The log line does not name the request and the reconcile id, because the span has both.
fn log_failure(error: &Error, attempt: u32, next_in: Option<Duration>, gave_up: bool) {
    let retry_in = next_in.map(tracing::field::debug);
    // A field with the value `None` is left out of the log line.
    let last_attempt = gave_up.then_some(true);
    match error.downcast_ref() {
        Some(NoResult::Panicked(message)) => {
            tracing::error!(panic = %message, attempt, retry_in, last_attempt, "reconcile panicked");
        }
        Some(NoResult::TimedOut) => tracing::error!(
            attempt,
            retry_in,
            last_attempt,
            "reconcile was dropped: it went on past its deadline and the grace after it"
        ),
        None if error.is_terminal() => {
            tracing::error!(error = %error.chain(), attempt, "reconcile failed and is not retried");
        }
        None => {
            tracing::error!(error = %error.chain(), attempt, retry_in, last_attempt, "reconcile failed");
        }
    }
}
