//! The cache over the embedded api-server, in process, on a paused clock.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod asked;
mod scoping;
mod sharing;
mod views;
mod half_open;
mod looks;
mod definitions;
mod degraded;
mod reads;
mod starts;
mod preflight;
mod lives;
mod panics;
mod seeds;
mod stopped;
mod metrics;
mod outage;
