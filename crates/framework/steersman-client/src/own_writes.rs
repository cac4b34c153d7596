//! Room: the writes of a client that its cache has not seen yet, and the reads that wait for them.

pub(crate) mod unseen_writes;
pub(crate) mod write_tracker;
