//! A tour of the cache: each stop sets options, and shows the requests and the memory that they cost.
//!
//! Everything runs in this process, on a paused clock that jumps while all tasks wait. So the tour takes a
//! moment, and its output is the same every time but for some bytes.
//!
//! - [`page`] lays out the text.
//! - [`asked`] counts the requests that arrived.
//! - [`cluster`] has the server with its objects, and the caches that are opened on it.
//! - [`stops`] has the stops, in order.

pub mod page;
pub mod asked;
pub mod cluster;
pub mod stops;

/// Any error; it ends the tour.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
