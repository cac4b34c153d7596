//! A tour of the cache: each stop says something with its options, and shows what that asks of the
//! server and what is held in memory afterwards.
//!
//! Everything is in this process, on a clock that stands still while somebody works and jumps while
//! all wait: the tour takes a moment, and looks the same every time but for some bytes.
//!
//! - [`page`] lays out what is told.
//! - [`asked`] sums up the requests that arrived.
//! - [`cluster`] has the server, what is in it, and the caches that are opened on it.
//! - [`stops`] are the stops, in order.

pub mod page;
pub mod asked;
pub mod cluster;
pub mod stops;

/// Any error: the tour ends with it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
