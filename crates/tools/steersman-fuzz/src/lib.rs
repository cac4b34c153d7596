//! Fuzz targets of the embedded API server, the protobuf encoding and the webhooks, with checks of the results.
//!
//! Each [`Target`] interprets its input as one kind of data. `cargo xtask fuzz` searches for inputs that violate the
//! checks; the tests of this crate run the inputs in `corpus/`.

mod input;
mod server;
mod protobuf;
mod webhook;
mod targets;

pub use targets::{TARGETS, Target};
