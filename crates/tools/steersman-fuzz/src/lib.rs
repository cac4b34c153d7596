//! Fuzz targets of the embedded API server, with checks of the responses.
//!
//! Each [`Target`] interprets its input as one kind of client data. For any input, the server
//! responds, the response matches its content type and status, and a refused request changes
//! nothing. `cargo xtask fuzz` searches for violations; the tests of this crate run the inputs in
//! `corpus/`.

mod world;
mod targets;

pub use targets::Target;
