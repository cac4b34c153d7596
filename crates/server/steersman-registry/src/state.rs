//! Room: the state of the server: `Registry`, the pending work of its controllers, snapshots and transactions.

pub(crate) mod verb_state;
pub(crate) mod pending_work;
pub(crate) mod service_network;
pub(crate) mod recorder;
pub(crate) mod registry;
pub(crate) mod transaction;
pub(crate) mod snapshot;
pub(crate) mod recovery;
