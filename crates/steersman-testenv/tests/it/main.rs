//! Environments as tests use them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod binaries;
mod environments;
mod reports;
mod users;
