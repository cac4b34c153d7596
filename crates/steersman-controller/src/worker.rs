//! Driver: the wiring of one worker: ticket, reconciler, outcome, end of the ticket.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use steersman_object::panic_text;
use steersman_workqueue::{Queue, ShutDown, Ticket};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::limit::{LimitUser, Permit};
use crate::metrics::Metrics;
use crate::outcome::{Ending, outcome};
use crate::reconcile::Reconciler;
use crate::request::RequestKey;

/// Takes tickets and reconciles their requests, one at a time.
pub(crate) struct Worker<R: RequestKey, C> {
    pub(crate) queue: Queue<R>,
    /// The limit that the controller shares with others, if there is one.
    pub(crate) limit: Option<LimitUser>,
    pub(crate) reconciler: Arc<C>,
    // The context of the current reconcile; before the first reconcile, the context of the
    // controller.
    pub(crate) context: Context,
    pub(crate) metrics: Metrics,
    pub(crate) reconcile_ids: Arc<AtomicU64>,
    pub(crate) stop: CancellationToken,
    pub(crate) deadline: Option<Duration>,
    pub(crate) deadline_grace: Duration,
}

/// How the future of one reconcile ended.
enum Ended {
    Returned(Result<Action, Error>),
    Panicked(String),
    TimedOut,
}

// Counts a reconcile as active until dropped, also if its task is aborted.
struct Active<'a>(&'a Metrics);

// === impl Worker ===

impl<R: RequestKey, C: Reconciler<R>> Worker<R, C> {
    /// Works until the queue is shut down.
    pub(crate) async fn run(mut self) {
        while let Ok((ticket, permit)) = self.next().await {
            // CTRL-8: a panic outside the reconciler does not end the worker. It drops the ticket, which
            // counts as a failure of the request.
            let worked = AssertUnwindSafe(self.work(ticket)).catch_unwind().await;
            if let Err(payload) = worked {
                self.metrics.panicked();
                tracing::error!(
                    controller = self.context.controller(),
                    panic = %panic_text(&*payload),
                    "the clock or the formatting of a request panicked; the request is tried again with \
                     backoff: correct it"
                );
            }
            drop(permit);
            // Yields now and then: a queue that is never empty, with reconciles that never wait, would
            // occupy the thread.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Takes the next ticket, with a permit if the controller shares a limit (CTRL-10).
    async fn next(&self) -> Result<(Ticket<R>, Option<Permit>), ShutDown> {
        match &self.limit {
            None => Ok((self.queue.next().await?, None)),
            Some(limit) => {
                let (ticket, permit) = self.queue.next_with(|| limit.permit()).await?;
                Ok((ticket, Some(permit)))
            }
        }
    }

    async fn work(&mut self, ticket: Ticket<R>) {
        // Relaxed, because ids only have to differ.
        let reconcile_id = self.reconcile_ids.fetch_add(1, Ordering::Relaxed);
        let span = tracing::error_span!(
            "reconcile",
            controller = self.context.controller(),
            object = ?ticket.key(),
            reconcile_id
        );
        self.context
            .begin(ticket.key(), reconcile_id, ticket.attempts());
        // Only a reconcile with a deadline has a cancellation token of its own.
        if self.deadline.is_some() {
            self.context.cancel_with(self.stop.child_token());
        }
        let _active = Active::new(&self.metrics);
        let start = Instant::now();
        async {
            let ended = self.reconcile(ticket.key().clone()).await;
            self.finish(ticket, &ended, start.elapsed());
        }
        .instrument(span)
        .await;
    }

    async fn reconcile(&self, request: R) -> Ended {
        // Both the call and its future may panic, so both are inside. CTRL-2: after a panic, the
        // author of the reconciler is responsible for its state, as after an early return.
        let run = async { self.reconciler.reconcile(&self.context, request).await };
        let run = AssertUnwindSafe(run).catch_unwind();
        let Some(deadline) = self.deadline else {
            return Ended::new(run.await);
        };
        let mut run = Box::pin(run);
        if let Ok(end) = timeout(deadline, &mut run).await {
            return Ended::new(end);
        }
        self.context.cancel();
        if let Ok(end) = timeout(self.deadline_grace, &mut run).await {
            return Ended::new(end);
        }
        match catch_unwind(AssertUnwindSafe(move || drop(run))) {
            Ok(()) => Ended::TimedOut,
            Err(payload) => Ended::Panicked(panic_text(&*payload).to_owned()),
        }
    }

    fn finish(&self, ticket: Ticket<R>, ended: &Ended, time: Duration) {
        let attempt = ticket.attempts();
        let ending = match ended {
            Ended::Returned(Ok(action)) => Ending::Success(*action),
            Ended::Returned(Err(error)) => Ending::Failed {
                terminal: error.is_terminal(),
            },
            Ended::Panicked(_) => Ending::Panicked,
            Ended::TimedOut => Ending::TimedOut,
        };
        let outcome = outcome(ending, || self.context.now());
        // Counted before the ticket ends, so that the metrics include every reconcile with visible
        // effects.
        self.metrics.ended(outcome.label, time);
        match ending {
            Ending::Success(_) => {}
            Ending::Failed { terminal } => self.metrics.failed(terminal),
            Ending::Panicked => self.metrics.panicked(),
            Ending::TimedOut => self.metrics.timed_out(),
        }
        let retry_in = ticket.end(outcome.verdict);
        ended.log(attempt, retry_in);
    }
}

// === impl Ended ===

impl Ended {
    fn new(end: std::thread::Result<Result<Action, Error>>) -> Self {
        match end {
            Ok(result) => Self::Returned(result),
            Err(payload) => Self::Panicked(panic_text(&*payload).to_owned()),
        }
    }

    // Logs a failed reconcile; no other code does. The span has the request and the reconcile id.
    fn log(&self, attempt: u32, retry_in: Option<Duration>) {
        let retry_in = retry_in.map(tracing::field::debug);
        match self {
            Self::Returned(Ok(_)) => {}
            Self::Returned(Err(error)) if error.is_terminal() => {
                tracing::error!(error = %error.chain(), attempt, "reconcile failed and is not retried");
            }
            Self::Returned(Err(error)) => {
                tracing::error!(error = %error.chain(), attempt, retry_in, "reconcile failed");
            }
            Self::Panicked(message) => {
                tracing::error!(panic = %message, attempt, retry_in, "reconcile panicked");
            }
            Self::TimedOut => {
                tracing::error!(
                    attempt,
                    retry_in,
                    "reconcile was dropped: it went on past its deadline and the grace after it"
                );
            }
        }
    }
}

// === impl Active ===

impl<'a> Active<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.started();
        Self(metrics)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.stopped();
    }
}
