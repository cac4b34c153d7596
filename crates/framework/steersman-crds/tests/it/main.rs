//! Tests of definitions with the embedded API server, in process and on a paused clock.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod installing;
mod migrating;
