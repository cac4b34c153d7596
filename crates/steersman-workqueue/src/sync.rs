//! Words: the lock that the queue is built on, in one place so that a checker can replace it.

pub(crate) use parking_lot::Mutex;
