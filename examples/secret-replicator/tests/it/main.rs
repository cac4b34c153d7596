//! The replicator against an API server: in process on a paused clock, over HTTPS in real time, and against an existing
//! cluster where `USE_EXISTING_CLUSTER` is `true`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod world;
mod explore;
mod copies;
mod memory;
mod demo;
