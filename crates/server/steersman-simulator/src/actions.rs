//! Room: the simulator's writes: calls of verbs, and Events.

pub(crate) mod event_correlator;
pub(crate) mod turn_context;
mod write_events;
