//! Controllers over the embedded API server, in process, on a paused clock.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set its world up has failed"
)]

mod world;
mod sites;
mod adapters;
mod containment;
mod defaults;
mod finalizers;
mod logs;
mod loops;
mod owned;
mod own_writes;
mod pause;
mod reasons;
mod reports;
mod retries;
mod seeds;
mod shutdown;
mod single_flight;
mod first_sync;
mod timers;
mod sources;
mod namespaces;
mod watches;
