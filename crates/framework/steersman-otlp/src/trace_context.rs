//! Driver: finds the trace of a span, and writes it as the headers of W3C Trace Context.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceId};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use tracing::span::Id;
use tracing::{Dispatch, Span};
use tracing_opentelemetry::get_otel_context;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// The id of an unsampled trace, kept with its first span. Made for its first request, because most traces send none.
struct UnsampledTrace(TraceId);

/// Sets the headers of the trace that `span` belongs to, sampled or not. A request outside of any span has no trace, and
/// headers that the caller set stay.
pub(crate) fn inject(span: &Span, headers: &mut HeaderMap) {
    if headers.contains_key(TRACE_PARENT) {
        return;
    }
    let trace = span.with_subscriber(|(id, dispatch)| trace_of(id, dispatch));
    let Some(trace) = trace.flatten() else { return };
    let text = format!(
        "00-{}-{}-{:02x}",
        trace.trace_id(),
        trace.span_id(),
        trace.trace_flags().to_u8() & 1
    );
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(TRACE_PARENT, value);
    }
    let state = trace.trace_state().header();
    if let (false, Ok(value)) = (state.is_empty(), HeaderValue::from_str(&state)) {
        headers.insert(TRACE_STATE, value);
    }
}

fn trace_of(id: &Id, dispatch: &Dispatch) -> Option<SpanContext> {
    let registry = dispatch.downcast_ref::<Registry>()?;
    let mut last = None;
    // The innermost spans may be spans of the log only.
    for span in registry.span(id)?.scope() {
        let found = get_otel_context(&span.id(), dispatch);
        let context = found.map(|context| context.span().span_context().clone());
        if let Some(context) = context.filter(SpanContext::is_valid) {
            return Some(context);
        }
        last = Some(span);
    }
    let ids = RandomIdGenerator::default();
    let first = last?;
    let mut extensions = first.extensions_mut();
    if extensions.get_mut::<UnsampledTrace>().is_none() {
        extensions.insert(UnsampledTrace(ids.new_trace_id()));
    }
    let trace = extensions.get_mut::<UnsampledTrace>()?.0;
    Some(unsampled(trace, ids.new_span_id()))
}

fn unsampled(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, Default::default(), false, Default::default())
}
