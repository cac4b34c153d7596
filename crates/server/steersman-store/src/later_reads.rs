//! Words: the reads that decoded an object of the store again (SRV-STORE-7).

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_schema::resource::StorageKey;

use super::revision_text::RevisionText;

/// The reads that decoded an object after it had left the window.
#[derive(Debug, Default)]
pub(super) struct LaterReads(Mutex<Vec<LaterRead>>);

/// A read that decoded an object again.
#[derive(Debug)]
pub(super) struct LaterRead {
    pub(super) storage: StorageKey,
    pub(super) key: Arc<str>,
    /// The revision that was decoded.
    pub(super) text: Arc<RevisionText>,
}

/// Reports that an object of the store was decoded again, so that it enters the window again.
#[derive(Debug)]
pub(super) struct ReadReporter {
    reads: Arc<LaterReads>,
    storage: StorageKey,
    key: Arc<str>,
}

impl LaterReads {
    pub(super) fn take(&self) -> Vec<LaterRead> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl ReadReporter {
    pub(super) fn new(reads: &Arc<LaterReads>, storage: &StorageKey, key: &Arc<str>) -> Self {
        Self {
            reads: Arc::clone(reads),
            storage: storage.clone(),
            key: Arc::clone(key),
        }
    }

    pub(super) fn report(&self, text: &Arc<RevisionText>) {
        self.reads.0.lock().push(LaterRead {
            storage: self.storage.clone(),
            key: Arc::clone(&self.key),
            text: Arc::clone(text),
        });
    }
}
