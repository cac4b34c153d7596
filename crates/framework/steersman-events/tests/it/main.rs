//! Events over the embedded API server: on a paused clock in process, and over HTTPS.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod content;
mod series;
mod trouble;
mod https;
