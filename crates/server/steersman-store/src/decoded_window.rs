//! Machine: decides which objects of the store stay decoded (SRV-STORE-7).

use std::collections::VecDeque;
use std::sync::Arc;

use steersman_schema::resource::StorageKey;

use super::later_reads::{LaterRead, LaterReads, ReadReporter};

/// Maximum total size of the objects that stay decoded, in bytes of JSON: 4 MiB, or about 40 MiB decoded. Objects that
/// were written last are the likeliest to be written or read again.
pub(super) const UNFOLDED: usize = 4 << 20;

/// Maximum size of one object that stays decoded, in bytes of JSON: 16 KiB. CustomResourceDefinitions are often larger,
/// are written in large numbers, and are seldom read.
pub(super) const LARGE: usize = 16 << 10;

/// The objects that stay decoded, because they were written or decoded last.
#[derive(Debug, Default)]
pub(super) struct DecodedWindow {
    objects: VecDeque<DecodedObject>,
    /// The total size of the JSON of `objects`, without those in `large`, in bytes.
    bytes: usize,
    /// Objects larger than `LARGE`, which [`take_surplus`](Self::take_surplus) returns first.
    large: Vec<DecodedObject>,
    reads: Arc<LaterReads>,
}

#[derive(Debug)]
pub(super) struct DecodedObject {
    pub(super) storage: StorageKey,
    pub(super) key: Arc<str>,
    pub(super) revision: u64,
    /// The size of the object's JSON, in bytes.
    pub(super) bytes: usize,
}

impl DecodedWindow {
    pub(super) fn add(&mut self, object: DecodedObject) {
        if object.bytes > LARGE {
            self.large.push(object);
        } else {
            self.bytes += object.bytes;
            self.objects.push_back(object);
        }
    }

    /// Removes and returns the next object that must not stay decoded: a large one, else the oldest. `None` if there is
    /// no large one and the others have at most `limit` bytes of JSON.
    pub(super) fn take_surplus(&mut self, limit: usize) -> Option<DecodedObject> {
        if let Some(large) = self.large.pop() {
            return Some(large);
        }
        if self.bytes <= limit {
            return None;
        }
        let oldest = self.objects.pop_front()?;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }

    pub(super) fn reporter(&self, storage: &StorageKey, key: &Arc<str>) -> ReadReporter {
        ReadReporter {
            reads: Arc::clone(&self.reads),
            storage: storage.clone(),
            key: Arc::clone(key),
        }
    }

    pub(super) fn take_reads(&self) -> Vec<LaterRead> {
        std::mem::take(&mut *self.reads.lock())
    }

    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.large.clear();
        self.bytes = 0;
    }
}
