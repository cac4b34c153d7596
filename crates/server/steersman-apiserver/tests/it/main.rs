//! Tests of the embedded API server from outside: in process on a paused clock, over HTTPS with a
//! real client, and with kubectl.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

mod bad_input;
mod crds;
mod discovery;
mod faults;
mod field_managers;
mod golden;
mod https;
mod kinds;
mod kubectl;
mod lists;
mod names;
mod permissions;
mod play;
#[cfg(all(unix, feature = "binary"))]
mod program;
mod protobuf;
mod python;
mod reviews;
mod shapes;
mod snapshots;
mod ui;
mod verbs;
mod watches;
mod webhooks;
