//! Words: reports of reads that decoded a stored object again, after its decoded value had been dropped (SRV-STORE-7).

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_schema::resource::StorageKey;

use super::revision_text::RevisionText;

/// The reads that decoded an object which the store did not keep decoded any more, until the store handles them.
pub(super) type LaterReads = Mutex<Vec<LaterRead>>;

#[derive(Debug)]
pub(super) struct LaterRead {
    pub(super) storage: StorageKey,
    pub(super) key: Arc<str>,
    /// The JSON of the decoded revision, by which the store checks that the revision is still the newest.
    pub(super) text: Arc<RevisionText>,
}

/// Reports that a read decoded an object of the store again, so that the store keeps the object decoded for a while.
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
