//! Driver: where keys are left whose adder need not go in - while the queue is in use, or has backlog.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::exchange::Arrival;

/// So many ready keys are backlog: one more is in no hurry to be among them.
const BACKLOG: usize = 64;

/// With so many adds somebody has to go in, though nobody takes a key.
const CAPACITY: usize = 128;

/// Keys that were added and are not in the machine yet.
///
/// WQ-7: whoever goes in takes the adds along, so nobody can tell a key at the door from one inside.
/// Adding many keys is cheaper that way, for the machine takes them in together, and who
/// adds does not wait for those who take.
///
/// WQ-7: there are no adds while a worker sleeps. A worker counts as parked before it looks the last time,
/// and from then on nothing is left at the door.
pub(crate) struct AddBuffer<T> {
    adds: Mutex<Vec<Arrival<T>>>,
    has_adds: AtomicBool,
    // Written while `adds` is locked, so that a note is either seen by a worker that goes to sleep or
    // refused.
    parked: AtomicUsize,
    backlog: AtomicBool,
}

/// What came of a note.
pub(crate) enum Pushed<T> {
    /// It is at the door.
    Buffered,
    /// It is at the door with so many others that somebody has to go in.
    Full,
    /// Somebody waits for it: it has to be taken in at once.
    WorkerParked(Arrival<T>),
}

// === impl AddBuffer ===

impl<T> AddBuffer<T> {
    pub(crate) fn new() -> Self {
        Self {
            adds: Mutex::new(Vec::new()),
            has_adds: AtomicBool::new(false),
            parked: AtomicUsize::new(0),
            backlog: AtomicBool::new(false),
        }
    }

    /// Leaves a key at the door.
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

    /// Exchanges the adds for `empty`.
    pub(crate) fn swap(&self, empty: &mut Vec<Arrival<T>>) {
        if self.has_adds.load(Ordering::Acquire) {
            let mut adds = self.adds.lock();
            std::mem::swap(&mut *adds, empty);
            self.has_adds.store(false, Ordering::Release);
        }
    }

    /// Whether a worker sleeps, or is about to. To be asked after the machine was changed: a worker
    /// that is not seen here sees the change.
    pub(crate) fn has_parked_workers(&self) -> bool {
        self.parked.load(Ordering::Acquire) > 0
    }

    pub(crate) fn park(&self) {
        let _notes = self.adds.lock();
        self.parked.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn unpark(&self) {
        self.parked.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the machine has keys for a while.
    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Takes note of how many keys are ready.
    pub(crate) fn set_ready(&self, ready: usize) {
        let backlog = ready >= BACKLOG;
        if backlog != self.has_backlog() {
            self.backlog.store(backlog, Ordering::Relaxed);
        }
    }
}
