//! Words: the work that writes to the store postpone until the lock of the registry, the owner of the store, is free.

use std::sync::Arc;

use super::object::Stored;

/// The work that writes postpone until the registry's lock is free: serialising new objects, and dropping old ones.
///
/// Serialising an object and computing its managedFields take about a third of the time of a write, and dropping a
/// decoded object frees each of its nodes.
#[derive(Debug, Default)]
#[must_use = "call `finish` after releasing the lock"]
pub struct AfterWrites {
    /// The objects that writes stored, to be serialised in the order of their revisions.
    written: Vec<Arc<Stored>>,
    replaced: Vec<Arc<Stored>>,
}

/// Maximum length of each of the two lists: four times the at most 64 writes that the simulator of controllers makes
/// under one lock. It bounds the objects that wait to be serialised (SRV-STORE-10) or dropped (SRV-STORE-7).
pub(super) const WAITING: usize = 256;

impl AfterWrites {
    /// Returns the number of objects that wait to be serialised or dropped.
    pub fn len(&self) -> usize {
        self.written.len() + self.replaced.len()
    }

    /// Returns whether no object waits, so that [`finish`](Self::finish) has nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Serialises the objects that were written, and drops the objects that they replaced.
    pub fn finish(self) {
        for one in &self.written {
            one.serialise();
        }
    }

    /// Appends the waiting objects of `later`, which later writes added.
    pub fn append(&mut self, mut later: Self) {
        self.written.append(&mut later.written);
        self.replaced.append(&mut later.replaced);
    }

    /// Adds an object that a write stored. If `WAITING` objects wait already, its first reader serialises it instead.
    pub(super) fn add_written(&mut self, one: &Arc<Stored>) {
        if self.written.len() < WAITING {
            self.written.push(Arc::clone(one));
        }
    }

    /// Adds an object that a write replaced; drops it at once if it is not decoded, or if `WAITING` objects wait.
    pub(super) fn add_replaced(&mut self, old: Arc<Stored>) {
        if old.is_decoded() && self.replaced.len() < WAITING {
            self.replaced.push(old);
        }
    }
}
