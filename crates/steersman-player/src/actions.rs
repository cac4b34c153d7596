//! Room: the player's writes: calls of verbs, and Events.

pub(crate) mod events;
pub(crate) mod world;
mod telling;
