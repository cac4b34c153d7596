//! Driver: the mutex, atomics and notifications of the queue, for production or for loom.

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic;

#[cfg(not(all(test, loom)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(all(test, loom)))]
pub(crate) use tokio::sync::Notify;

#[cfg(all(test, loom))]
pub(crate) use loom::sync::{MutexGuard, atomic};

#[cfg(all(test, loom))]
pub(crate) use loom_tests::{Mutex, Notify};

#[cfg(all(test, loom))]
mod loom_tests;
