//! Environments for testing operators.
//!
//! A test asks for a [`TestEnv`] and connects to it; whether that is the embedded API server, the
//! real binaries or a cluster decides the environment in which the test runs, not its code:
//!
//! - [`TestEnv::in_process`] is the embedded server without sockets. On a paused clock
//!   (`#[tokio::test(start_paused = true)]`) minutes of backoff pass in microseconds.
//! - [`TestEnv::start`] is the embedded server over HTTPS; where `KUBEBUILDER_ASSETS` names a
//!   folder, the `etcd` and `kube-apiserver` in it; where `USE_EXISTING_CLUSTER` is `true`, the
//!   cluster that the kubeconfig names. Real time only.
//! - [`TestEnv::builder`] has the options: definitions to install, a server of one's own.
//!
//! [`TestEnv::user`] makes users with permissions, [`TestEnv::namespace`] a namespace for one test.
//! [`eventually`], [`consistently`] and [`never()`] wait on either clock, and [`TestEnv::expect`] does
//! so with a report of what was asked, what exists, and what controllers last did. [`log::capture`]
//! keeps what a test logs, and [`seeds::live`] lives worlds that are made from seeds, by the
//! numbers of a [`seeds::Dice`]. [`apiserver`] is the embedded server itself, with its request log and its faults.

pub mod error;
pub mod assert;
mod backend;
mod arguments;
mod pki;
mod process;
mod rest;
mod control_plane;
mod definitions;
mod reconciles;
pub mod log;
mod report;
pub mod environment;
mod builder;
mod user;
mod namespace;
mod expect;
pub mod seeds;

pub use assert::{consistently, eventually, eventually_within, never};
pub use backend::{Assets, Backend};
pub use builder::TestEnvBuilder;
pub use environment::TestEnv;
pub use error::Error;
pub use expect::Expectation;
pub use namespace::TestNamespace;
pub use steersman_apiserver as apiserver;
pub use user::{User, UserBuilder, UserService};
