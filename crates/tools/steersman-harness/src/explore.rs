//! Room: explores an operator in worlds of this process: each on a server and a paused clock of its own.

mod scenario;
mod manager_host;
mod worlds;

pub use scenario::Scenario;
pub use steersman_testenv::apiserver::explore::engine::{ExploreReport, PerturbationKind};

pub(crate) use worlds::{ExploredOperator, explore};
