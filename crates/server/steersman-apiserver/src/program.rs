//! Room: the server as a program. Called `kube-apiserver`, `etcd` or `kubectl`, it takes the place of that program.
//!
//! Invariant: stopping the program loses no data, and a data file that does not parse is never overwritten
//! (SRV-DATA-1).

mod called_as;
mod durability;
mod flags;
mod command_line;
mod problem;
mod process;
mod request_news;
mod flag_file;
mod credentials;
mod data;
mod log_keeper;
mod seed;
mod run;
#[cfg(unix)]
mod explore;
mod etcd;
mod kube_apiserver;
mod kubectl;

pub(crate) use called_as::CalledAs;
pub(crate) use flags::ServerFlags;
pub(crate) use problem::{Outcome, ProgramProblem, chain};

pub(crate) use etcd::run as run_etcd;
#[cfg(unix)]
pub(crate) use explore::{ExploreFlags, run as run_explore};
pub(crate) use kube_apiserver::run as run_kube_apiserver;
pub(crate) use kubectl::run as run_kubectl;
pub(crate) use run::run;
