//! Room: the server as a program.
//!
//! Invariant: a stop loses nothing, and a file that cannot be read is never written over (SRV-DATA-1).

mod flags;
mod problem;
mod data;
mod seed;
mod run;

pub(crate) use flags::Flags;
pub(crate) use problem::chain;
pub(crate) use run::run;
