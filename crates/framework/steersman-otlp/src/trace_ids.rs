//! Machine: makes the ids of exported traces and spans.

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

use crate::sampling::SampleShare;

/// Makes random ids. Those of traces have values that a sampler by trace id with the same ratio keeps, because the
/// decision falls before the id is made.
#[derive(Debug)]
pub(crate) struct SampledIds {
    random: RandomIdGenerator,
    share: SampleShare,
}

impl SampledIds {
    pub(crate) fn new(share: SampleShare) -> Self {
        Self {
            random: RandomIdGenerator::default(),
            share,
        }
    }
}

impl IdGenerator for SampledIds {
    fn new_trace_id(&self) -> TraceId {
        let id = u128::from_be_bytes(self.random.new_trace_id().to_bytes());
        let low = self.share.exported_value(id as u64);
        TraceId::from_bytes((id >> 64 << 64 | u128::from(low)).to_be_bytes())
    }

    fn new_span_id(&self) -> SpanId {
        self.random.new_span_id()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::{Sampler, ShouldSample};

    use super::*;

    #[test]
    fn a_sampler_of_the_same_ratio_keeps_every_made_trace() {
        use opentelemetry::trace::SpanKind;
        use opentelemetry_sdk::trace::SamplingDecision;

        for ratio in [0.001, 0.3, 1.0] {
            let ids = SampledIds::new(SampleShare::new(ratio));
            let sampler = Sampler::TraceIdRatioBased(ratio);
            for _ in 0..100 {
                let id = ids.new_trace_id();
                let kept = sampler.should_sample(None, id, "a", &SpanKind::Internal, &[], &[]);
                assert_eq!(
                    kept.decision,
                    SamplingDecision::RecordAndSample,
                    "{ratio} {id}"
                );
            }
        }
    }
}
