//! Words: the work that writes leave for the time after the lock on the registry.

use std::sync::Arc;

use super::object::Stored;

/// The written objects that are not serialised yet, and the decoded objects that were replaced.
///
/// Serialising an object and computing its managedFields take about a third of the time of a write.
/// Dropping a decoded object frees each of its nodes.
#[derive(Debug, Default)]
#[must_use = "call `finish` after releasing the lock"]
pub struct AfterWrites {
    /// The unserialised objects, in the order of their revisions.
    written: Vec<Arc<Stored>>,
    replaced: Vec<Arc<Stored>>,
}

/// Maximum number of written objects, and of replaced ones: four times as many as one turn of the simulator
/// writes (SRV-STORE-7, SRV-STORE-10).
pub(super) const WAITING: usize = 256;

impl AfterWrites {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.written.len() + self.replaced.len()
    }

    /// Returns whether nothing is left to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Serialises the written objects and drops the replaced ones.
    pub fn finish(self) {
        for one in &self.written {
            one.serialise();
        }
    }

    /// Adds the work of later writes.
    pub fn append(&mut self, mut later: Self) {
        self.written.append(&mut later.written);
        self.replaced.append(&mut later.replaced);
    }

    /// Adds a written object. Beyond the bound it stays unserialised until its first use.
    pub(super) fn add_written(&mut self, one: &Arc<Stored>) {
        if self.written.len() < WAITING {
            self.written.push(Arc::clone(one));
        }
    }

    /// Adds a replaced object if it is decoded, within the bound.
    pub(super) fn add_replaced(&mut self, old: Arc<Stored>) {
        if old.is_decoded() && self.replaced.len() < WAITING {
            self.replaced.push(old);
        }
    }
}
