//! Machine: drops the decoded forms of stored objects.

use std::sync::Arc;

use super::Store;

/// Bytes of JSON of the newest objects that stay decoded, which takes about ten times this memory.
/// A client that writes an object often writes or reads it again soon.
pub(super) const UNFOLDED: usize = 4 << 20;

impl Store {
    /// Serialises what waits for that, and drops the decoded forms of all objects. Call it after writes
    /// of objects that are rarely read.
    pub fn fold_all(&mut self) {
        self.take_after_writes().finish();
        self.count_serialised();
        self.fold(0);
        drop(self.take_after_writes());
    }

    /// Drops the decoded form of the objects with the oldest writes (SRV-STORE-7), until those of the
    /// newest take at most `limit` bytes of JSON.
    pub(super) fn fold(&mut self, limit: usize) {
        while self.unfolded_bytes > limit
            && let Some(oldest) = self.unfolded.pop_front()
        {
            self.unfolded_bytes -= oldest.bytes;
            let table = self.tables.get_mut(&oldest.storage);
            let object = table.and_then(|table| table.objects.get_mut(&oldest.key));
            if let Some(object) = object.filter(|object| object.revision == oldest.revision) {
                let folded = Arc::new(object.folded());
                let decoded = std::mem::replace(object, folded);
                self.after_writes.add_replaced(decoded);
            }
        }
    }
}
