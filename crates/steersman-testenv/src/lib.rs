//! Environments for testing operators.
//!
//! A test asks for a [`TestEnv`] and connects to it; whether that is the embedded API server or a
//! cluster decides the environment in which the test runs, not its code:
//!
//! - [`TestEnv::in_process`] is the embedded server without sockets. On a paused clock
//!   (`#[tokio::test(start_paused = true)]`) minutes of backoff pass in microseconds.
//! - [`TestEnv::start`] is the embedded server over HTTPS; or, where `USE_EXISTING_CLUSTER` is
//!   `true`, the cluster that the kubeconfig names. Real time only.
//!
//! [`eventually`] waits for a state on either clock, and [`log::capture`] keeps what a test logs. [`apiserver`] is the embedded server itself,
//! with its request log and its faults.

pub mod environment;
pub mod assert;
pub mod log;

pub use assert::eventually;
pub use environment::TestEnv;
pub use steersman_apiserver as apiserver;
