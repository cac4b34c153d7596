//! Driver: the parts of a reconcile's span that only traces show: the events that caused it, and its end.
//!
//! The level of these spans is `trace`, so that logs leave them out. Without a subscriber that is interested, nothing is
//! made.

use std::time::Duration;

use tracing::{Level, Span};

use crate::context::reason::RunReason;
use crate::outcome::Label;

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
