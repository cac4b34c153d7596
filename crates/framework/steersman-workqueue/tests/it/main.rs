//! The queue as its users see it: through the handle, on a paused clock.

mod fairness;
mod metrics;
mod model;
mod permits;
mod shutdown;
mod threads;
mod tickets;
