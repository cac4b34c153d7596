//! Fuzz targets of the embedded API server, the protobuf encoding and the webhooks, with checks of the results.
//!
//! Each [`Target`] interprets its input as one kind of data. `cargo xtask fuzz` searches for inputs that violate the
//! checks; the tests of this crate run the inputs in `corpus/`.
//!
//! # Reading order
//!
//! - `input` has the parts of an input.
//! - `server` interprets the bytes of an input as requests to the embedded API server, and checks the responses.
//! - `protobuf::decoding`: messages, and lists and watches in whatever chunks they arrive; `protobuf::encoding`: JSON
//!   to protobuf and back.
//! - `webhook`: `webhook::webhooks` has a defaulter, a validator, a chain of handlers, conversions and a token
//!   reviewer; `webhook::admission` sends reviews and checks the patches of the defaulters, `webhook::conversion`
//!   converts to other versions and back, and `webhook::token` sends reviews of tokens.
//! - `targets` is the table of the targets.

mod protobuf;
#[cfg(feature = "http")]
mod input;
#[cfg(feature = "http")]
mod server;
#[cfg(feature = "http")]
mod webhook;
mod targets;

pub use targets::Target;
