//! Tests of exported traces, with a collector that decodes OTLP and managers on the embedded API server.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod collector;
mod world;
mod reconciles;
mod unsampled;
mod failing_collectors;
mod variables;
mod programs;
