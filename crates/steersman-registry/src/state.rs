//! Room: the state of the server: `Registry`, its pending work, and its snapshots.

pub(crate) mod verb_state;
pub(crate) mod pending_work;
pub(crate) mod service_network;
pub(crate) mod registry;
mod internal_reads;
pub(crate) mod snapshot;
