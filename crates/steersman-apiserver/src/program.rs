//! Room: the server as a program.
//!
//! Invariant: stopping the program loses no data, and a data file that does not parse is never
//! overwritten (SRV-DATA-1).

mod flags;
mod problem;
mod data;
mod seed;
mod run;

pub(crate) use flags::Flags;
pub(crate) use problem::chain;
pub(crate) use run::run;
