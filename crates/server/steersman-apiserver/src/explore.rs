//! Room: runs the worlds in which an operator is explored, each on a server of its own.
//!
//! `steersman-explore` decides which worlds run and what happens in them; this room carries it out. A caller starts and
//! kills the operator: it implements [`OperatorHost`].

mod compared_object;
mod error;
mod host;
mod refusal;
mod user;
mod lease_holders;
mod world_state;
mod world_core;
mod world;

pub use error::ExploreError;
pub use host::{OperatorHost, ProcessEnd, ReconcileOutcomes};
pub use steersman_explore as engine;
pub use world::run_world;
