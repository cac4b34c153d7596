//! What the programs of the examples share, so that an example itself holds its operator and little else.
//!
//! - [`cluster`] finds the cluster of a program, or starts an API server in the process.
//! - [`setup`] installs definitions, creates samples, and checks that the server serves a kind.
//! - [`story`] prints what happens to objects.
//! - [`once`] runs a manager until something has happened.
//! - [`demo`] has steps of demonstrations.
//! - [`command`] runs a program for a test.

pub mod cluster;
pub mod setup;
pub mod story;
pub mod once;
pub mod demo;
pub mod command;

/// The error of a program.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
