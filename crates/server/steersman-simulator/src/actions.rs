//! Room: the writes of the simulator: calls of the registry's verbs (create, update, delete), and Events.

pub(crate) mod event_correlator;
pub(crate) mod turn_context;
mod write_events;
