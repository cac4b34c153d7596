//! Handle: the export of traces by `steersman-otlp`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use steersman_api::ClientConfig;
use steersman_otlp::{OtlpOptions, Traces};
use tracing_subscriber::{Layer, Registry};

use super::{OtlpFlags, TraceExport, TracedProgram};
use crate::error::Error;

/// The longest time of the last export.
const LAST_EXPORT: Duration = Duration::from_secs(5);

pub(super) fn export(
    flags: &OtlpFlags<'_>,
    service: &TracedProgram<'_>,
) -> Result<Option<Arc<dyn TraceExport>>, Error> {
    let mut options = OtlpOptions::new(service.name);
    if let Some(version) = service.version {
        options = options.version(version);
    }
    if let Some(endpoint) = flags.endpoint {
        options = options.endpoint(endpoint);
    }
    if let Some(ratio) = flags.sample_ratio {
        options = options.sample_ratio(ratio);
    }
    let started = options.start();
    let traces = started.map_err(|error| Error::Traces(Box::new(error)))?;
    Ok(traces.map(|traces| Arc::new(traces) as Arc<dyn TraceExport>))
}

impl TraceExport for Traces {
    fn collector(&self) -> &str {
        self.collector()
    }

    fn sample_ratio(&self) -> f64 {
        self.sample_ratio()
    }

    fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        self.layer().boxed()
    }

    fn traced(&self, client_config: ClientConfig) -> ClientConfig {
        self.traced(client_config)
    }

    fn finish(&self) -> BoxFuture<'static, ()> {
        let traces = self.clone();
        async move { traces.shutdown(LAST_EXPORT).await }.boxed()
    }
}
