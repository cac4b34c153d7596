//! Machine: keeps the newest objects of a store decoded, and drops the decoded values of all others.

use std::sync::Arc;

use super::super::decoded_window::{DecodedObject, UNFOLDED};
use super::Store;

impl Store {
    /// Serialises the objects that are not serialised yet, and drops the decoded value of every object. Call it after
    /// writes of many objects that are rarely read.
    pub fn fold_all(&mut self) {
        self.take_after_writes().finish();
        self.count_serialised();
        self.fold(0);
        drop(self.take_after_writes());
    }

    /// Drops the decoded values of the objects that were written or decoded first, until the decoded objects have at
    /// most `limit` bytes of JSON (SRV-STORE-7). An object is replaced by a copy that is not decoded.
    pub(super) fn fold(&mut self, limit: usize) {
        while let Some(surplus) = self.window.take_surplus(limit) {
            let table = self.tables.get_mut(&surplus.storage);
            let object = table.and_then(|table| table.objects.get_mut(&surplus.key));
            if let Some(object) = object.filter(|object| object.revision == surplus.revision) {
                let reporter = self.window.reporter(&surplus.storage, &surplus.key);
                let folded = Arc::new(object.folded_in_store(reporter));
                let decoded = std::mem::replace(object, folded);
                self.after_writes.add_replaced(decoded);
            }
        }
    }

    /// Adds the objects that reads decoded again to the window, the list of the objects that stay decoded.
    pub(super) fn count_later_reads(&mut self) {
        for read in self.window.take_reads() {
            let table = self.tables.get(&read.storage);
            let object = table.and_then(|table| table.objects.get(&read.key));
            if let Some(object) = object.filter(|object| object.is_of(&read.text)) {
                self.window.add(DecodedObject {
                    revision: object.revision,
                    bytes: object.bytes().len(),
                    storage: read.storage,
                    key: read.key,
                });
            }
        }
        self.fold(UNFOLDED);
    }
}
