//! Machine: the terminal view: its content, the effects of its keys, and its drawing.

pub(crate) mod requests;
pub(crate) mod faults;
pub(crate) mod snapshot;
mod tail;
pub(crate) mod model;
pub(crate) mod render;
