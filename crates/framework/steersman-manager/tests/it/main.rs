//! The manager over the embedded api-server: in process on a paused clock, except for signals and servers.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod order;
mod stop;
mod failures;
mod isolation;
mod metrics;
mod missing_kinds;
mod preflight;
mod events;
mod controllers;
mod converted_kinds;
mod clusters;
mod declaring;
mod probes;
mod metrics_server;
mod debug_page;
mod webhooks;
mod definitions;
mod ending_leads;
mod leading;
mod seeds;
#[cfg(unix)]
mod sharing;
mod signals;
#[cfg(unix)]
mod processes;
