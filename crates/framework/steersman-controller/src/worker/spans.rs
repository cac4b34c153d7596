//! Driver: the parts of a reconcile's span that only traces show: the events that caused it, and its end.
//!
//! The level of these spans is `trace`, so that logs leave them out. Without a subscriber that is interested, nothing is
//! made.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tracing::{Level, Span};

use crate::context::reason::RunReason;
use crate::outcome::Label;

pin_project! {
    /// A future in a span. Unlike tracing's `Instrumented`, it does not enter the span once more to drop a future that has
    /// ended: for a reconcile that does nothing, this is half of the cost of entering.
    #[must_use]
    pub(crate) struct InSpan<F> {
        #[pin]
        future: Option<F>,
        span: Span,
    }

    impl<F> PinnedDrop for InSpan<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                let _entered = this.span.enter();
                this.future.set(None);
            }
        }
    }
}

impl<F> InSpan<F> {
    pub(crate) fn new(span: Span, future: F) -> Self {
        Self {
            future: Some(future),
            span,
        }
    }
}

impl<F: Future> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let future = this.future.as_mut().as_pin_mut();
        // As of every future, polling it again after its end is a mistake of the caller.
        let future = future.expect("`InSpan` was polled after its end");
        let entered = this.span.enter();
        let polled = future.poll(context);
        drop(entered);
        if polled.is_ready() {
            this.future.set(None);
        }
        polled
    }
}

/// Makes a span for each event that caused a reconcile, and links the current span, that of the reconcile, to them. Each
/// event is a trace of its own, because one event causes the reconciles of several requests.
pub(crate) fn link_events(reason: &RunReason) {
    // The list is checked first, because a subscriber may decide anew for each call.
    if reason.changes().len() == 0 || !tracing::span_enabled!(Level::TRACE) {
        return;
    }
    let reconcile = Span::current();
    for changed in reason.changes() {
        let gvk = changed.kind.gvk();
        let event = tracing::trace_span!(
            parent: None,
            "watch event",
            otel.kind = "consumer",
            "steersman.object.group" = gvk.group(),
            "steersman.object.kind" = gvk.kind(),
            "k8s.namespace.name" = changed.key.namespace(),
            "steersman.object.name" = changed.key.name(),
            "steersman.object.resource_version" = changed.version.as_str(),
            "steersman.event.change" = changed.change.as_str(),
        );
        reconcile.follows_from(event.id());
    }
}

/// Records the end of a reconcile in the current span. `permit_wait` is the time that the worker waited for a permit
/// before the reconcile began; `None` without a shared limit.
pub(crate) fn record_end(attempt: u32, label: Label, permit_wait: Option<Duration>) {
    if !tracing::span_enabled!(Level::TRACE) {
        return;
    }
    let reconcile = Span::current();
    reconcile.record("attempt", attempt);
    reconcile.record("result", label.as_str());
    if let Some(waited) = permit_wait {
        reconcile.record("permitWait", waited.as_secs_f64());
    }
}
