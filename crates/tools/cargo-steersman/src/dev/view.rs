//! Machine: the view on a terminal: what it shows, what its keys do, and how it is drawn.

pub(crate) mod requests;
pub(crate) mod faults;
pub(crate) mod snapshot;
mod tail;
pub(crate) mod model;
pub(crate) mod render;
