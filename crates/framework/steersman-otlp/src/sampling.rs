//! Machine: decides which spans and events are exported: whole traces or nothing of them.

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// The number of values of a trace id that decide about sampling: 63 bits, as in OpenTelemetry's trace-id ratio.
const VALUES: u64 = 1 << 63;

/// The share of the traces that are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleShare {
    /// Traces with a value below this one are exported.
    exported: u64,
}

/// The filter of the layer that exports spans.
///
/// The decision about a trace falls before its first span is made, so an unsampled trace costs one random number. Its
/// other spans are disabled. Their parent shows that they begin no trace of their own: the registry of
/// tracing-subscriber 0.3 makes a span of which the interest is `sometimes`, even if the filters of all layers refuse it.
/// `unsampled.rs` tests this without a log.
#[derive(Debug)]
pub(crate) struct SampledTraces {
    pub(crate) share: SampleShare,
}

/// A layer inside of [`SampledTraces`], which marks the spans of sampled traces for [`TraceParts`].
#[derive(Debug)]
pub(crate) struct MarkedSpans;

/// The mark of a span in a sampled trace.
struct InSampledTrace;

/// A layer that disables the framework's spans about parts of a trace for all layers, unless the trace is sampled. A
/// filter of one layer could not: the registry makes a span that only filters of layers refuse, with all its fields.
#[derive(Debug)]
pub(crate) struct TraceParts;

impl SampleShare {
    /// Makes a share from a ratio from 0 to 1.
    pub(crate) fn new(ratio: f64) -> Self {
        Self {
            exported: match ratio {
                ratio if ratio >= 1.0 => VALUES,
                ratio => (ratio.max(0.0) * VALUES as f64) as u64,
            },
        }
    }

    /// Returns whether the trace with this random value is exported.
    fn has(self, value: u64) -> bool {
        value >> 1 < self.exported
    }

    /// Maps a random value to the value of an exported trace, evenly. Another service that samples by the same ratio of
    /// trace ids then exports its part of the trace, too.
    pub(crate) fn exported_value(self, random: u64) -> u64 {
        let scaled = (u128::from(random >> 1) * u128::from(self.exported)) >> 63;
        // The product is less than 2^63 times `exported`, so the quotient is less than `exported` and fits.
        let scaled = u64::try_from(scaled).unwrap_or_default();
        scaled << 1 | random & 1
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for SampledTraces {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        if !is_exported(metadata) {
            return false;
        }
        match context.current_span().id() {
            None => begins_trace(metadata) && self.share.has(fastrand::u64(..)),
            // The context shows only spans that this filter has enabled; any other span belongs to an unsampled trace.
            Some(_) => context.lookup_current().is_some(),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_exported(metadata) {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for MarkedSpans {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(InSampledTrace);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceParts {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_part(metadata) {
            true => Interest::sometimes(),
            false => Interest::always(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        // The innermost spans may be spans of the log only.
        let is_sampled = || {
            let mut spans = context.lookup_current()?.scope();
            spans.find(|span| span.extensions().get::<InSampledTrace>().is_some())
        };
        !is_part(metadata) || is_sampled().is_some()
    }
}

/// Returns whether a span may be the first span of a trace. The framework's spans about parts of a reconcile have the
/// level `trace`, so that logs leave them out; they never begin a trace.
fn begins_trace(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && *metadata.level() <= Level::INFO
}

/// Returns whether a span or event is exported if its trace is sampled: the level is `info` or more severe, or it is a
/// span of the framework.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || is_part(metadata)
}

/// Returns whether a span describes a part of a trace of the framework, such as a read.
fn is_part(metadata: &Metadata<'_>) -> bool {
    metadata.is_span()
        && *metadata.level() == Level::TRACE
        && metadata.target().starts_with("steersman")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_an_exported_trace_is_within_the_share() {
        for ratio in [0.0001, 0.01, 0.5, 1.0] {
            let share = SampleShare::new(ratio);
            for random in [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
                let value = share.exported_value(random);
                assert!(share.has(value), "{ratio} {random}");
            }
            // The largest values stay near the end of the share.
            let last = share.exported_value(u64::MAX) >> 1;
            assert!(last as f64 > share.exported as f64 * 0.999, "{ratio}");
        }
    }

    #[test]
    fn a_share_has_its_part_of_all_values() {
        let part = |ratio| {
            let share = SampleShare::new(ratio);
            let step = u64::MAX / 10_000;
            (0..10_000).filter(|i| share.has(i * step)).count()
        };
        assert_eq!(part(0.0), 0);
        assert_eq!(part(1.0), 10_000);
        assert!((99..=101).contains(&part(0.01)), "{}", part(0.01));
    }
}
