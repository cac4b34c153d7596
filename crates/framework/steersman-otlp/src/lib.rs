//! Traces of reconciles, exported over OTLP, with `traceparent` on requests to the API server.
//!
//! The other crates of the framework describe their work with spans of the crate `tracing` and know nothing of
//! OpenTelemetry. This crate chooses the traces that are exported, sends them to a collector with OTLP over HTTP, and
//! adds a span and the header `traceparent` to each request to the API server that belongs to a trace.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use steersman_api::ClientConfig;
//! use steersman_otlp::OtlpOptions;
//! use tracing_subscriber::layer::SubscriberExt as _;
//! use tracing_subscriber::util::SubscriberInitExt as _;
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let options = OtlpOptions::new("website-operator")
//!     .endpoint("http://collector.observability:4318")
//!     .sample_ratio(0.01);
//! // `None` if `OTEL_SDK_DISABLED` or `OTEL_TRACES_EXPORTER` turn the export off.
//! if let Some(traces) = options.start()? {
//!     tracing_subscriber::registry().with(traces.layer()).init();
//!     let client_config = traces.traced(ClientConfig::infer().await?);
//!     // Run a manager with this configuration, and then:
//!     traces.shutdown(Duration::from_secs(5)).await;
//! #   drop(client_config);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A program with `steersman-cli` needs none of this: its feature `otlp` adds the flags.
//!
//! # Reading order
//!
//! - [`error`] has [`Error`].
//! - `settings` reads the standard variables of OpenTelemetry.
//! - `sampling` decides which traces are exported, and `trace_ids` makes their ids.
//! - `attributes` names the parts of a reconcile's span as OpenTelemetry does.
//! - `failures` decides when a failed export is logged.
//! - `collector` sends requests to the collector, and `exporter` sends spans.
//! - `path` describes the path of a request to the API server, `trace_context` finds the trace of a span, and
//!   `requests` adds spans and `traceparent` to requests.
//! - [`traces`] has the handles, [`OtlpOptions`] and [`Traces`].

pub mod error;
mod settings;
mod sampling;
mod trace_ids;
mod attributes;
mod failures;
mod collector;
mod exporter;
mod path;
mod trace_context;
mod requests;
pub mod traces;

pub use error::Error;
pub use traces::{OtlpOptions, Traces};
