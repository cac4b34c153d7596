//! The operator against an api-server: in process on a paused clock, over HTTPS in real time, and
//! against an existing cluster where `USE_EXISTING_CLUSTER` is `true`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod world;
mod converge;
mod outage;
mod others;
mod sharing;
mod binary;
mod replica;
mod failover;
mod shards;
mod production;
mod namespaces;
mod settled;
mod explore;
mod webhooks;
#[cfg(unix)]
mod walk;
