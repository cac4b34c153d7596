//! Tests of production features that pass unchanged on every server that a test environment can use: the embedded
//! one over HTTPS, real binaries, and a cluster (`USE_EXISTING_CLUSTER`). They use real time, and names of their own.

mod world;
mod election;
mod events;
mod metrics;
mod clusters;
mod waiting;
mod definitions;
mod stand_in;
