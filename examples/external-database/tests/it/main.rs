//! The operator against an API server and a service: in process on a paused clock, over HTTP in real time, and against
//! an existing cluster where `USE_EXISTING_CLUSTER` is `true`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod world;
mod explore;
mod provide;
mod failures;
mod demo;
