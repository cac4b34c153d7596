//! Handle: the export of traces, which programs with the feature `otlp` have.

#[cfg(feature = "otlp")]
mod otlp;

use std::sync::Arc;

use futures::future::BoxFuture;
use steersman_api::ClientConfig;
use tracing_subscriber::{Layer, Registry};

use crate::error::Error;
use crate::json_log::program;

/// An export of traces. Only programs with the feature `otlp` have an implementation.
pub(crate) trait TraceExport: Send + Sync {
    /// Returns the address of the collector, without credentials.
    fn collector(&self) -> &str;

    /// Returns the share of exported traces.
    fn sample_ratio(&self) -> f64;

    /// Returns the layer for the subscriber of the process.
    fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync>;

    /// Adds spans and `traceparent` to the requests of a client configuration.
    fn traced(&self, client_config: ClientConfig) -> ClientConfig;

    /// Exports the last spans, and stops the export.
    fn finish(&self) -> BoxFuture<'static, ()>;
}

/// The settings of the export that are flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtlpFlags<'a> {
    pub(crate) endpoint: Option<&'a str>,
    pub(crate) sample_ratio: Option<f64>,
}

/// The program as it is named in traces.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "otlp"),
    expect(dead_code, reason = "only an export names the program")
)]
pub(crate) struct TracedProgram<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: Option<&'a str>,
}

impl TracedProgram<'_> {
    /// Returns the file name of the program, for a program without a name.
    pub(crate) fn of_binary() -> Self {
        Self {
            name: program(),
            version: None,
        }
    }
}

/// Starts the export that flags or variables ask for; `None` if they ask for none.
#[cfg(feature = "otlp")]
pub(crate) fn export(
    flags: &OtlpFlags<'_>,
    service: &TracedProgram<'_>,
) -> Result<Option<Arc<dyn TraceExport>>, Error> {
    otlp::export(flags, service)
}

/// Refuses the flags of the export. The variables of OpenTelemetry have no effect without the feature, because clusters
/// set them for all their programs.
#[cfg(not(feature = "otlp"))]
pub(crate) fn export(
    flags: &OtlpFlags<'_>,
    _: &TracedProgram<'_>,
) -> Result<Option<Arc<dyn TraceExport>>, Error> {
    let key = match flags {
        OtlpFlags {
            endpoint: Some(_), ..
        } => "otlp-endpoint",
        OtlpFlags {
            sample_ratio: Some(_),
            ..
        } => "otlp-sample-ratio",
        _ => return Ok(None),
    };
    Err(Error::NoFeature {
        key,
        feature: "otlp",
        remedy: "add it to the features of the dependency `steersman` in Cargo.toml, or leave the setting out",
    })
}
