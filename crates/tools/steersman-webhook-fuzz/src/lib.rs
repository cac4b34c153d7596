//! Fuzz targets of the webhooks of an operator, with checks of the responses.
//!
//! Each [`Target`] interprets its input as one kind of review. For any input, no webhook panics, and each review has
//! one response with its uid. The patch of a defaulter changes what the defaulter changes and nothing else, and an
//! object that is converted to another version and back is what it was. `cargo xtask fuzz` searches for violations;
//! the tests of this crate run the inputs in `corpus/`.

mod kinds;
mod webhooks;
mod admission;
mod conversion;
mod token;
mod targets;

pub use targets::Target;
