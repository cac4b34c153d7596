//! Room: the write-ahead log of a server: the transactions to append, and the requests that wait for the log.
//!
//! Invariant: answers and watch events show only revisions that are in the log, with all earlier ones (WAL-1).

mod queue;
mod handle;

pub use handle::WriteAheadLog;
pub use queue::WalGroup;
