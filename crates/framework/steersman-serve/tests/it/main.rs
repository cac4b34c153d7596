//! Servers over sockets, in real time, and reviews of the embedded api-server.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod serving;
mod limits;
mod certificates;
mod access;
