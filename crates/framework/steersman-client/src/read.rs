//! Room: reads: the choice between the cache and the server, cached reads and live reads.

pub(crate) mod route;
pub(crate) mod live;
pub(crate) mod cached;
