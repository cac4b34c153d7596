//! Room: the write-ahead log of a server: the transactions to append, and the requests that wait for the log.
//!
//! Invariant: no answer and no watch event shows a revision before that revision and all revisions before it are in the
//! log (WAL-1).

mod queue;
mod handle;

pub use handle::WriteAheadLog;
pub use queue::WalGroup;
