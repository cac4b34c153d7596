//! Room: `steersman-apiserver explore`: explores an operator of any language, as a process of its own.

mod flags;
mod scenario;
mod process;
mod output;
mod jobs;
mod run;

pub(crate) use flags::ExploreFlags;
pub(crate) use run::run;
