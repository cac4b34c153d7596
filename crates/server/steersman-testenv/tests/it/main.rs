//! Tests of environments through their public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod binaries;
mod environments;
mod pages;
mod permissions;
mod reports;
mod users;
