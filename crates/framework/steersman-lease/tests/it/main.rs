//! Tests of electors with the embedded API server: in process on a paused clock, and on threads over HTTPS.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod electing;
mod losing;
mod client_go;
mod threads;
