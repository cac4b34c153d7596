//! Room: cached reads and live reads.

pub(crate) mod live;
pub(crate) mod cached;
