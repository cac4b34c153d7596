//! Driver: where keys are left whose adder need not go in - while the queue is in use, or has plenty.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::exchange::Arrival;

/// So many ready keys are plenty: one more is in no hurry to be among them.
const PLENTY: usize = 64;

/// With so many notes somebody has to go in, though nobody takes a key.
const FULL: usize = 128;

/// Keys that were added and are not in the machine yet.
///
/// WQ-7: whoever goes in takes the notes along, so nobody can tell a key at the door from one inside.
/// Adding many keys is cheaper that way, for the machine takes them in together, and who
/// adds does not wait for those who take.
///
/// WQ-7: there are no notes while a worker sleeps. A worker counts as asleep before it looks the last time,
/// and from then on nothing is left at the door.
pub(crate) struct Door<T> {
    notes: Mutex<Vec<Arrival<T>>>,
    has_notes: AtomicBool,
    // Written while `notes` is locked, so that a note is either seen by a worker that goes to sleep or
    // refused.
    asleep: AtomicUsize,
    plenty: AtomicBool,
}

/// What came of a note.
pub(crate) enum Left<T> {
    /// It is at the door.
    Noted,
    /// It is at the door with so many others that somebody has to go in.
    Full,
    /// Somebody waits for it: it has to be taken in at once.
    Awaited(Arrival<T>),
}

// === impl Door ===

impl<T> Door<T> {
    pub(crate) fn new() -> Self {
        Self {
            notes: Mutex::new(Vec::new()),
            has_notes: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            plenty: AtomicBool::new(false),
        }
    }

    /// Leaves a key at the door.
    pub(crate) fn leave(&self, arrival: Arrival<T>) -> Left<T> {
        let mut notes = self.notes.lock();
        if self.somebody_sleeps() {
            return Left::Awaited(arrival);
        }
        notes.push(arrival);
        self.has_notes.store(true, Ordering::Release);
        if notes.len() < FULL {
            Left::Noted
        } else {
            Left::Full
        }
    }

    /// Exchanges the notes for `empty`.
    pub(crate) fn collect(&self, empty: &mut Vec<Arrival<T>>) {
        if self.has_notes.load(Ordering::Acquire) {
            let mut notes = self.notes.lock();
            std::mem::swap(&mut *notes, empty);
            self.has_notes.store(false, Ordering::Release);
        }
    }

    /// Whether a worker sleeps, or is about to. To be asked after the machine was changed: a worker
    /// that is not seen here sees the change.
    pub(crate) fn somebody_sleeps(&self) -> bool {
        self.asleep.load(Ordering::Acquire) > 0
    }

    pub(crate) fn fall_asleep(&self) {
        let _notes = self.notes.lock();
        self.asleep.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the machine has keys for a while.
    pub(crate) fn has_plenty(&self) -> bool {
        self.plenty.load(Ordering::Relaxed)
    }

    /// Takes note of how many keys are ready.
    pub(crate) fn set_ready(&self, ready: usize) {
        let plenty = ready >= PLENTY;
        if plenty != self.has_plenty() {
            self.plenty.store(plenty, Ordering::Relaxed);
        }
    }
}
