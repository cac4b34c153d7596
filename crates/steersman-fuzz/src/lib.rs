//! Throws bytes at the embedded API server, and says what must hold of the answers.
//!
//! Each [`Target`] reads its input as one kind of thing that a client can send. Whatever the bytes,
//! the server answers, the answer is what its content type and its status say, and a request that
//! was refused changed nothing. `cargo xtask fuzz` looks for bytes that break this; the tests of
//! this crate try the ones in `corpus/`.

mod world;
mod targets;

pub use targets::Target;
