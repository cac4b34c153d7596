//! Words: the work that writes to the store leave for the time after the registry's lock.

use std::sync::Arc;

use super::object::Stored;

/// The written objects that are not serialised yet, and the decoded objects that writes replaced.
///
/// Serialising an object and computing its managedFields take about a third of the time of a write, and dropping a
/// decoded object frees each of its nodes.
#[derive(Debug, Default)]
#[must_use = "call `finish` after releasing the lock"]
pub struct AfterWrites {
    /// The unserialised objects, in the order of their revisions.
    written: Vec<Arc<Stored>>,
    replaced: Vec<Arc<Stored>>,
}

/// Maximum number of written objects, and of replaced objects: four times the number of writes in one turn of the
/// simulator (SRV-STORE-7, SRV-STORE-10).
pub(super) const WAITING: usize = 256;

impl AfterWrites {
    /// Returns the number of written and replaced objects.
    pub fn len(&self) -> usize {
        self.written.len() + self.replaced.len()
    }

    /// Returns whether no written and no replaced object is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Serialises the written objects and drops the replaced ones.
    pub fn finish(self) {
        for one in &self.written {
            one.serialise();
        }
    }

    /// Adds the objects of later writes.
    pub fn append(&mut self, mut later: Self) {
        self.written.append(&mut later.written);
        self.replaced.append(&mut later.replaced);
    }

    /// Adds a written object. Beyond `WAITING` objects, it stays unserialised until its first use.
    pub(super) fn add_written(&mut self, one: &Arc<Stored>) {
        if self.written.len() < WAITING {
            self.written.push(Arc::clone(one));
        }
    }

    /// Adds a replaced object if it is decoded, up to `WAITING` objects.
    pub(super) fn add_replaced(&mut self, old: Arc<Stored>) {
        if old.is_decoded() && self.replaced.len() < WAITING {
            self.replaced.push(old);
        }
    }
}
