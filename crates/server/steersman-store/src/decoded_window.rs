//! Machine: decides which objects of the store stay decoded (SRV-STORE-7).

use std::collections::VecDeque;
use std::sync::Arc;

use steersman_schema::resource::StorageKey;

use super::later_reads::{LaterRead, LaterReads, ReadReporter};

/// Maximum size of the objects that stay decoded, in bytes of JSON; decoded, they take about ten times this memory. A
/// client that writes an object often writes or reads it again soon.
pub(super) const UNFOLDED: usize = 4 << 20;

/// Maximum size of an object that stays decoded, in bytes of JSON. Definitions are often larger, are written in large
/// numbers, and are seldom read.
pub(super) const LARGE: usize = 16 << 10;

/// The objects that were written or decoded last, which stay decoded.
#[derive(Debug, Default)]
pub(super) struct DecodedWindow {
    objects: VecDeque<DecodedObject>,
    /// The total size of the JSON of the objects in the window, including large ones, in bytes.
    bytes: usize,
    /// Objects larger than `LARGE`, which lose their decoded form first.
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

    /// Returns and removes the next object that is to lose its decoded form; `None` if the others have at most `limit`
    /// bytes of JSON.
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
