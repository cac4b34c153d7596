//! Tests of the cache over the embedded API server, in process and on a paused clock.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod requests;
mod scoping;
mod sharing;
mod views;
mod half_open;
mod views_end;
mod definitions;
mod degraded;
mod reads;
mod staggered_starts;
mod preflight;
mod removal;
mod panics;
mod seeds;
mod shards;
mod stopped;
mod holds;
mod namespaces;
mod metrics;
mod outage;
