//! Tests of Events with the embedded API server: in process on a paused clock, and over HTTPS.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod content;
mod series;
mod trouble;
mod https;
