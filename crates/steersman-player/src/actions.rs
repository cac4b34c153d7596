//! Room: the player's writes: calls of verbs, and Events.

pub(crate) mod event_correlator;
pub(crate) mod world;
mod write_events;
