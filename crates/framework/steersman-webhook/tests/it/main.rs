//! Tests of webhooks with the embedded API server: in process on a paused clock, and over HTTPS in real time.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod admission;
mod chains;
mod hostile;
mod conversion;
mod tokens;
mod https;
mod authority_world;
mod certificates;
