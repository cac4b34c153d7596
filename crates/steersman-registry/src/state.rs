//! Room: the state of the server: `Registry`, its pending work, and its snapshots.

pub(crate) mod due;
pub(crate) mod registry;
mod follow;
pub(crate) mod snapshot;
