//! Words: the reads that decoded an object of the store again (SRV-STORE-7).

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_schema::resource::StorageKey;

use super::revision_text::RevisionText;

/// The reads that decoded an object again after it had lost its decoded form.
#[derive(Debug, Default)]
pub(super) struct LaterReads(Mutex<Vec<LaterRead>>);

#[derive(Debug)]
pub(super) struct LaterRead {
    pub(super) storage: StorageKey,
    pub(super) key: Arc<str>,
    /// The text of the decoded revision.
    pub(super) text: Arc<RevisionText>,
}

/// Reports that a read decoded an object of the store again, so that the object enters the window of decoded objects.
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
