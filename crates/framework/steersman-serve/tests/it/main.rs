//! Tests of servers with sockets in real time, and with reviews of the embedded API server.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod serving;
mod limits;
mod certificates;
mod access;
