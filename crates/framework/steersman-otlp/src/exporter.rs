//! Driver: exports spans in batches, on a thread of its own, and logs failures.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    Protocol, SpanExporter as OtlpExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanData, SpanExporter};
use parking_lot::Mutex;
use steersman_api::clock::now;
use tracing::{info, warn};

use crate::attributes::rename;
use crate::collector::{CollectorClient, LastProblem};
use crate::error::Error;
use crate::failures::ExportFailures;
use crate::sampling::SampleShare;
use crate::settings::ExportSettings;
use crate::trace_ids::SampledIds;

/// An exporter that names attributes, and logs failures.
#[derive(Debug)]
struct LoggedExporter {
    inner: OtlpExporter,
    failures: Mutex<ExportFailures>,
    last_problem: LastProblem,
    endpoint: String,
}

/// Starts the thread that exports spans in batches. Its queue is bounded: spans that do not fit are dropped.
pub(crate) fn provider(
    settings: &ExportSettings,
    share: SampleShare,
) -> Result<SdkTracerProvider, Error> {
    let last_problem = LastProblem::default();
    let client = CollectorClient::new(settings, Arc::clone(&last_problem))?;
    let inner = OtlpExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(settings.endpoint.to_string())
        .with_timeout(settings.timeout)
        .with_headers(settings.headers.clone())
        .build()
        .map_err(|error| Error::Setup {
            problem: error.to_string(),
        })?;
    let exporter = LoggedExporter {
        inner,
        failures: Mutex::default(),
        last_problem,
        endpoint: settings.address(),
    };
    let attributes = settings.resource.iter().cloned();
    let resource = Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(attributes.map(|(key, value)| KeyValue::new(key, value)))
        .build();
    // The filter of the layer samples. What reaches the sampler is to be exported, unless a parent that the program set
    // itself is unsampled.
    let sampler = Sampler::ParentBased(Box::new(Sampler::AlwaysOn));
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .with_sampler(sampler)
        .with_id_generator(SampledIds::new(share))
        .build())
}

/// Returns the tracer of the framework.
pub(crate) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    let scope = opentelemetry::InstrumentationScope::builder("steersman");
    let scope = scope.with_version(env!("CARGO_PKG_VERSION")).build();
    provider.tracer_with_scope(scope)
}

impl SpanExporter for LoggedExporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(rename);
        let spans = batch.len();
        let ended = self.inner.export(batch).await;
        match &ended {
            Ok(()) => {
                if self.failures.lock().handle_success() {
                    info!(collector = self.endpoint, "traces are exported again");
                }
            }
            Err(error) => {
                let lost = self.failures.lock().handle_failure(spans, now());
                if let Some(lost) = lost {
                    let problem = self.last_problem.lock().take();
                    let problem = problem.unwrap_or_else(|| error.to_string());
                    warn!(
                        collector = self.endpoint,
                        lost,
                        error = problem,
                        "traces are not exported and spans are lost: check the address of the collector"
                    );
                }
            }
        }
        ended
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
