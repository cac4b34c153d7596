//! Tests of desired sets with the embedded API server, in process on a paused clock.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod settled;
mod order;
mod pruning;
mod foreign;
mod crashes;
