//! Words: the reads that decoded an object of the store again (SRV-STORE-7).

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_schema::resource::StorageKey;

use super::revision_text::RevisionText;

/// The reads that decoded an object after it had left the window.
pub(super) type LaterReads = Mutex<Vec<LaterRead>>;

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
    pub(super) reads: Arc<LaterReads>,
    pub(super) storage: StorageKey,
    pub(super) key: Arc<str>,
}

impl ReadReporter {
    pub(super) fn report(&self, text: &Arc<RevisionText>) {
        self.reads.lock().push(LaterRead {
            storage: self.storage.clone(),
            key: Arc::clone(&self.key),
            text: Arc::clone(text),
        });
    }
}
