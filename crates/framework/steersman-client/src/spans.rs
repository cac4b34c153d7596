//! Driver: the spans of reads, writes and waits, for traces. Their level is `trace`, so that logs leave them out.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::poll;
use steersman_api::{Error, RequestInfo};
use steersman_object::{Kind, ObjectKey};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, trace_span};

/// Makes the span of a write, with all its requests and the pauses between them.
pub(crate) fn write_span(kind: &Kind, info: &RequestInfo) -> Span {
    let key = info.key();
    let plural = kind.qualified_plural();
    trace_span!(
        "write",
        otel.name = match info.subresource() {
            Some(part) => format!("{} {plural}/{part}", info.verb()),
            None => format!("{} {plural}", info.verb()),
        },
        otel.status_code = Empty,
        "steersman.verb" = info.verb(),
        "steersman.object.group" = kind.gvk().group(),
        "steersman.object.kind" = kind.gvk().kind(),
        "k8s.namespace.name" = info.namespace(),
        "steersman.object.name" = key.map(ObjectKey::name).filter(|name| !name.is_empty()),
        "error.type" = Empty,
    )
}

/// Makes the span of a read from the server, with all its requests and the pauses between them.
pub(crate) fn live_read_span(kind: &Kind) -> Span {
    trace_span!(
        "read",
        otel.name = format!("read {}", kind.qualified_plural()),
        otel.status_code = Empty,
        "steersman.object.group" = kind.gvk().group(),
        "steersman.object.kind" = kind.gvk().kind(),
        "error.type" = Empty,
    )
}

/// Makes the span of a read from the cache that has to wait, or to see own writes. `key` is the key of a get, and `None` for a list.
pub(crate) fn cached_read_span(kind: &Kind, key: Option<&ObjectKey>) -> Span {
    trace_span!(
        "read",
        otel.name = format!("read cached {}", kind.qualified_plural()),
        "steersman.object.group" = kind.gvk().group(),
        "steersman.object.kind" = kind.gvk().kind(),
        "k8s.namespace.name" = key.and_then(ObjectKey::namespace),
        "steersman.object.name" = key.map(ObjectKey::name),
    )
}

/// Makes the span of a read's wait until the cache has seen writes.
pub(crate) fn own_writes_span(kind: &Kind, writes: usize) -> Span {
    trace_span!(
        "wait",
        otel.name = "wait for own writes",
        "steersman.object.group" = kind.gvk().group(),
        "steersman.object.kind" = kind.gvk().kind(),
        "steersman.wait.writes" = writes,
    )
}

/// Makes the span of a pause that the server asked for (`Retry-After`).
pub(crate) fn pause_span(wait: Duration, code: Option<u16>) -> Span {
    trace_span!(
        "wait",
        otel.name = "wait for Retry-After",
        "steersman.wait.seconds" = wait.as_secs_f64(),
        "http.response.status_code" = code,
    )
}

/// Records the error of a read or a write in its span.
pub(crate) fn record(span: &Span, error: Option<&Error>) {
    let Some(error) = error.filter(|_| !span.is_disabled()) else {
        return;
    };
    span.record("otel.status_code", "error");
    match error.code() {
        Some(code) => span.record("error.type", code.to_string()),
        None => span.record("error.type", "transport"),
    };
}

/// Awaits a read from the cache, in a span if it does not return at once: most reads do, and have no span.
pub(crate) async fn waiting<F: Future>(read: F, span: impl FnOnce() -> Span) -> F::Output {
    let mut read = pin!(read);
    match poll!(read.as_mut()) {
        Poll::Ready(found) => found,
        Poll::Pending => read.instrument(span()).await,
    }
}
