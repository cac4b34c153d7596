//! Test environments for operators.
//!
//! A test that creates a [`TestEnv`] runs against the embedded API server, real binaries, or a cluster:
//!
//! - [`TestEnv::in_process`] is the embedded server without sockets. On a paused clock
//!   (`#[tokio::test(start_paused = true)]`) minutes of backoff pass in microseconds.
//! - [`TestEnv::start`] is the embedded server over HTTPS; if `KUBEBUILDER_ASSETS` names a folder, the `etcd` and
//!   `kube-apiserver` in it; if `USE_EXISTING_CLUSTER` is `true`, the cluster of the kubeconfig. Real clock only.
//! - [`TestEnv::builder`] sets options, such as definitions to install or the server to use.
//!
//! [`TestEnv::user`] creates users with permissions, [`TestEnv::namespace`] a namespace for one test. [`eventually`],
//! [`consistently`] and [`never()`] wait on either clock, and [`TestEnv::expect`] adds a report of the last requests,
//! objects and reconciles. [`log::capture`] captures the log of a test, and [`json_lines()`] reads the log of a
//! process. [`seeds::live`] runs seeded simulations with the random numbers of [`seeds::SeededRng`].
//! [`TestEnv::rbac_needed`] is the least role for the requests of a test, for a comparison with the role of the
//! operator. [`apiserver`] is the embedded server, with its request log and its faults. The variable `STEERSMAN_UI=1`
//! serves a page of it for browsers, and long waits print the address; with `hold` a test stays at a failed wait.
//!
//! # Reading order
//!
//! - [`error`] has the errors of an environment.
//! - `page` serves the page of the embedded server while a test waits, if `STEERSMAN_UI` is set.
//! - [`mod@assert`] waits for a condition, or checks that it stays true.
//! - `backend` chooses the server: the embedded one, real binaries, or an existing cluster.
//! - `arguments`, `pki` and `process` are parts of `control_plane`, a real etcd and kube-apiserver; `rest` sends the
//!   requests of the environment itself.
//! - `definitions` installs definitions from files.
//! - `reconciles` reads the last reconciles of controllers from their spans, [`log`] captures the log of a test, and
//!   `json_lines` reads the log of a process.
//! - `report` describes the state after a wait that timed out.
//! - `rbac_rules` has RBAC rules as a set, and `rbac_log` derives them from the log of requests.
//! - [`environment`] has [`TestEnv`], and `builder` its options.
//! - `user`, `namespace` and `expect` are what a test asks of an environment.
//! - [`seeds`] runs seeded simulations.

pub mod error;
mod page;
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
mod json_lines;
mod report;
mod rbac_rules;
mod rbac_log;
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
pub use json_lines::json_lines;
pub use namespace::TestNamespace;
pub use rbac_log::is_of_test;
pub use rbac_rules::{RbacRules, RbacSyntaxError};
pub use steersman_apiserver as apiserver;
pub use user::{User, UserBuilder, UserService};
