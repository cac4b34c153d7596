//! Tests of the program `cargo steersman`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod additions;
mod cargo;
mod deploy;
mod doctor;
mod examined;
mod help;
mod real;
#[cfg(unix)]
mod dev_role;
#[cfg(unix)]
mod explore;
mod scaffold;
mod top;
mod under_its_role;
mod upgrade;
mod versions;
