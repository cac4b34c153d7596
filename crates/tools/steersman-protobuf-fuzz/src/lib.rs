//! Fuzz targets of the protobuf encoding, with checks of the results.
//!
//! No bytes make the decoder panic. What it accepts is JSON and has one meaning: in whatever chunks it arrives, and
//! after it was encoded again. `cargo xtask fuzz` searches for violations; the tests of this crate run the inputs in
//! `corpus/`.

mod decoding;
mod encoding;
mod targets;

pub use targets::Target;
