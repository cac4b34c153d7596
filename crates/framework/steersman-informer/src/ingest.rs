//! Room: the way of an object from the server's stream to an entry: decoded, transformed and packed.

pub(crate) mod plan;
pub(crate) mod entry_maker;
pub(crate) mod dictionary;
pub(crate) mod read_ahead;
pub(crate) mod stream;
