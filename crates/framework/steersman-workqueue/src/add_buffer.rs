//! Driver: a buffer of adds that the machine has not processed yet, so that an add rarely waits for the lock.

use crate::exchange::Arrival;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether loom explores the queue, which needs small limits.
const IN_LOOM: bool = cfg!(all(test, loom));

/// The number of ready keys from which adds are buffered, because the workers are busy and need no wake-up.
const BACKLOG: usize = if IN_LOOM { 1 } else { 64 };

/// The number of buffered adds at which the adding thread applies them to the machine.
const CAPACITY: usize = if IN_LOOM { 2 } else { 128 };

/// Adds that the machine has not processed yet, and the number of parked workers.
///
/// The machine processes a batch of adds faster than single adds, and an adding thread does not wait for the lock while
/// another thread takes a key.
///
/// WQ-7: every access to the machine first applies the buffered adds, so callers cannot tell a buffered key from a key
/// in the machine. The buffer is empty while a worker is parked: a worker counts as parked before its last check of the
/// machine, and from then on the buffer refuses adds.
pub(crate) struct AddBuffer<T> {
    adds: Mutex<Vec<Arrival<T>>>,
    has_adds: AtomicBool,
    /// The number of workers that are parked or about to park. It is increased while `adds` is locked, so that the last
    /// check of the worker sees an add, or the buffer refuses the add.
    parked: AtomicUsize,
    has_backlog: AtomicBool,
}

pub(crate) enum Pushed<T> {
    Buffered,
    /// The add is in the buffer, which is full: the caller applies it to the machine.
    Full,
    /// The buffer refuses the add because a worker is parked: the caller adds the key to the machine.
    WorkerParked(Arrival<T>),
}

// === impl AddBuffer ===

impl<T> AddBuffer<T> {
    pub(crate) fn new() -> Self {
        Self {
            adds: Mutex::new(Vec::new()),
            has_adds: AtomicBool::new(false),
            parked: AtomicUsize::new(0),
            has_backlog: AtomicBool::new(false),
        }
    }

    /// Buffers an add, unless a worker is parked.
    pub(crate) fn push(&self, arrival: Arrival<T>) -> Pushed<T> {
        let mut adds = self.adds.lock();
        if self.has_parked_workers() {
            return Pushed::WorkerParked(arrival);
        }
        adds.push(arrival);
        self.has_adds.store(true, Ordering::Release);
        if adds.len() < CAPACITY {
            Pushed::Buffered
        } else {
            Pushed::Full
        }
    }

    /// Exchanges the buffered adds for the vector `empty`.
    pub(crate) fn swap(&self, empty: &mut Vec<Arrival<T>>) {
        if self.has_adds.load(Ordering::Acquire) {
            let mut adds = self.adds.lock();
            std::mem::swap(&mut *adds, empty);
            self.has_adds.store(false, Ordering::Release);
        }
    }

    /// Returns whether a worker is parked or about to park. Call it after a change of the machine: a worker that does
    /// not count as parked yet will see the change.
    pub(crate) fn has_parked_workers(&self) -> bool {
        self.parked.load(Ordering::Acquire) > 0
    }

    pub(crate) fn park(&self) {
        let _adds = self.adds.lock();
        self.parked.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the count of one parked worker.
    pub(crate) fn unpark(&self) {
        self.parked.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns whether the machine had at least [`BACKLOG`] ready keys after its last access.
    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog.load(Ordering::Relaxed)
    }

    /// Stores the number of ready keys, which decides whether adds are buffered.
    pub(crate) fn set_ready(&self, ready: usize) {
        let has_backlog = ready >= BACKLOG;
        if has_backlog != self.has_backlog() {
            self.has_backlog.store(has_backlog, Ordering::Relaxed);
        }
    }
}
