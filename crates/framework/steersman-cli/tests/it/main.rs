//! Tests of an operator's configuration, from all sources.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod sources;
mod help;
mod servers;
mod program;
mod json_log;
