//! Handle: the export of traces of one process.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_sdk::trace::SdkTracerProvider;
use steersman_api::ClientConfig;
use tokio::task::spawn_blocking;
use tracing::{Subscriber, warn};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::error::Error;
use crate::exporter::{provider, tracer};
use crate::requests::RequestTracing;
use crate::sampling::{MarkedSpans, SampleShare, SampledTraces, TraceParts};
use crate::settings::{GivenSettings, settings};

/// The options of the export of traces. Variables of OpenTelemetry set what the options leave open.
///
/// | Variable | Meaning |
/// | --- | --- |
/// | `OTEL_EXPORTER_OTLP_ENDPOINT` | the collector; `/v1/traces` is added |
/// | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | the address for traces, as it is |
/// | `OTEL_EXPORTER_OTLP_HEADERS` | headers of each export, such as credentials |
/// | `OTEL_EXPORTER_OTLP_TIMEOUT` | the time limit of an export in milliseconds; 10000 by default |
/// | `OTEL_EXPORTER_OTLP_CERTIFICATE` | a PEM file with the authorities of the collector |
/// | `OTEL_EXPORTER_OTLP_PROTOCOL` | only `http/protobuf`, which is the default |
/// | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | the attributes of the process |
/// | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | the share of exported traces; all by default |
/// | `OTEL_TRACES_EXPORTER` | `otlp`, or `none` to export nothing |
/// | `OTEL_SDK_DISABLED` | `true` exports nothing |
/// | `OTEL_BSP_…` | the queue of spans and its batches |
#[derive(Clone, Debug)]
#[must_use = "options do nothing until the export is started"]
pub struct OtlpOptions {
    given: GivenSettings,
}

/// The export of traces of one process. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("Traces {{ collector: {collector:?}, sample_ratio: {sample_ratio:?}, .. }}")]
pub struct Traces {
    provider: SdkTracerProvider,
    collector: Arc<str>,
    sample_ratio: f64,
    share: SampleShare,
}

impl OtlpOptions {
    /// Makes options for a program. `service` is the name of the service, unless a variable names it.
    pub fn new(service: impl Into<String>) -> Self {
        Self {
            given: GivenSettings {
                service_name: service.into(),
                ..GivenSettings::default()
            },
        }
    }

    /// Sets the version of the service.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.given.service_version = Some(version.into());
        self
    }

    /// Sets the address of the collector, such as `http://collector:4318`, to which `/v1/traces` is added. Goes before
    /// the variables.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.given.endpoint = Some(endpoint.into());
        self
    }

    /// Sets the share of exported traces, from 0 to 1. Goes before the variables.
    pub fn sample_ratio(mut self, ratio: f64) -> Self {
        self.given.sample_ratio = Some(ratio);
        self
    }

    /// Starts the export, on a thread of its own. Returns `None` if the variables turn the export off, or neither the
    /// options nor the variables name a collector. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error`], with the setting and the allowed values.
    pub fn start(&self) -> Result<Option<Traces>, Error> {
        self.start_with(|name| std::env::var_os(name))
    }

    /// Starts the export like [`start`](Self::start), with these environment variables. The variables for the queue
    /// (`OTEL_BSP_…`) are those of the process.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start).
    pub fn start_with(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Traces>, Error> {
        let Some(settings) = settings(&self.given, &variable)? else {
            return Ok(None);
        };
        let share = SampleShare::new(settings.sample_ratio);
        Ok(Some(Traces {
            provider: provider(&settings, share)?,
            collector: settings.address().into(),
            sample_ratio: settings.sample_ratio,
            share,
        }))
    }
}

impl Traces {
    /// Returns the address of the collector, without credentials and path.
    pub fn collector(&self) -> &str {
        &self.collector
    }

    /// Returns the share of exported traces, from 0 to 1.
    pub fn sample_ratio(&self) -> f64 {
        self.sample_ratio
    }

    /// Returns the layer that exports spans, for the subscriber of the process.
    ///
    /// It exports spans of the framework and of the program from the level `info` on, with their events. A span without
    /// a parent begins a trace, and the decision whether the trace is exported falls at once. Filters of other layers,
    /// such as the level of the log, have no effect. For all layers, the framework's spans of the level `trace` exist in
    /// sampled traces only.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + 'static
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let spans = tracing_opentelemetry::layer()
            .with_tracer(tracer(&self.provider))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(true);
        let share = self.share;
        let sampled = MarkedSpans
            .and_then(spans)
            .with_filter(SampledTraces { share });
        // The outer layer is asked first, and refuses most spans about parts at once.
        sampled.and_then(TraceParts)
    }

    /// Adds spans and `traceparent` to the requests of a client configuration.
    ///
    /// A request in a sampled trace has a span of its own, from the call to the head of the answer, with the attributes
    /// of OpenTelemetry for HTTP clients. A request in any trace has the header `traceparent`. Other requests, such as
    /// those of informers, stay as they are.
    pub fn traced(&self, client_config: ClientConfig) -> ClientConfig {
        let tracing = RequestTracing::new(&client_config.endpoint());
        client_config.layer(tracing)
    }

    /// Exports the spans that wait, and stops the export: later spans are dropped. Returns at the end of the time limit
    /// at the latest, and logs a warning if spans were lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the last export.
    pub async fn shutdown(&self, limit: Duration) {
        let provider = self.provider.clone();
        let ended = spawn_blocking(move || provider.shutdown_with_timeout(limit)).await;
        if let Ok(Err(error)) = ended {
            warn!(
                collector = &*self.collector,
                error = error.to_string(),
                "the last traces are not exported: check the address of the collector"
            );
        }
    }
}
