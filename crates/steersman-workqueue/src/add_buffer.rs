//! Driver: a buffer of adds that wait for the next look at the machine, so that adding rarely waits.

use crate::exchange::Arrival;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether loom explores the queue, which needs small numbers.
const IN_LOOM: bool = cfg!(all(test, loom));

/// The number of ready keys from which an add goes into the buffer: the workers are busy for a while.
const BACKLOG: usize = if IN_LOOM { 1 } else { 64 };

/// The number of buffered adds at which the adding thread applies them itself.
const CAPACITY: usize = if IN_LOOM { 2 } else { 128 };

/// Adds that the machine has not seen yet, and the number of parked workers.
///
/// The machine applies many adds at once faster than one by one, and a thread that adds does not wait
/// for a thread that takes.
///
/// WQ-7: every look at the machine applies the buffered adds first, so no caller can tell a buffered
/// key from one in the machine. The buffer is empty while a worker is parked: a worker is counted as
/// parked before its last look at the machine, and from then on the buffer refuses adds.
pub(crate) struct AddBuffer<T> {
    adds: Mutex<Vec<Arrival<T>>>,
    has_adds: AtomicBool,
    /// The number of workers that wait or are about to. Raised while `adds` is locked, so that an add is
    /// either seen by the last look of such a worker, or refused.
    parked: AtomicUsize,
    has_backlog: AtomicBool,
}

/// What became of an add.
pub(crate) enum Pushed<T> {
    /// The add is in the buffer.
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

    /// Exchanges the buffered adds for `empty`.
    pub(crate) fn swap(&self, empty: &mut Vec<Arrival<T>>) {
        if self.has_adds.load(Ordering::Acquire) {
            let mut adds = self.adds.lock();
            std::mem::swap(&mut *adds, empty);
            self.has_adds.store(false, Ordering::Release);
        }
    }

    /// Returns whether a worker is parked or about to park. If this is called after a change of the
    /// machine, a worker that is not counted here sees that change.
    pub(crate) fn has_parked_workers(&self) -> bool {
        self.parked.load(Ordering::Acquire) > 0
    }

    /// Counts a worker as parked.
    pub(crate) fn park(&self) {
        let _adds = self.adds.lock();
        self.parked.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a worker as parked no longer.
    pub(crate) fn unpark(&self) {
        self.parked.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns whether the machine had ready keys for a while when it was last looked at.
    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog.load(Ordering::Relaxed)
    }

    /// Notes the number of ready keys.
    pub(crate) fn set_ready(&self, ready: usize) {
        let has_backlog = ready >= BACKLOG;
        if has_backlog != self.has_backlog() {
            self.has_backlog.store(has_backlog, Ordering::Relaxed);
        }
    }
}
