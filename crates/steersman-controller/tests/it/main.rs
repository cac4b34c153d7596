//! Controllers over the embedded API server, in process, on a paused clock.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set its world up has failed"
)]

mod world;
mod containment;
mod defaults;
mod logs;
mod mapped_async;
mod namespaces;
mod optional;
mod own_writes;
mod polls;
mod runtime_kinds;
mod shutdown;
mod single_flight;
mod first_sync;
mod timers;
mod sources;
mod watch_set;
mod watches;
