//! Room: explores an operator in worlds of this process: each on a server and a paused clock of its own.

mod scenario;
mod process_connection;
mod manager_host;
mod worlds;

pub use scenario::Scenario;
pub use steersman_testenv::apiserver::explore::engine::{
    DesiredReport, ExploreReport, PerturbationKind, PointOutcome,
};

pub(crate) use worlds::{ExploredOperator, explore};
