//! Driver: the table of the changed objects that requested the requests in the queue.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::reason::{ChangedObject, ChangedObjects};
use crate::request::RequestKey;

/// For each request in the queue that a live event caused: the changed objects that requested it. Cheap to clone; all
/// clones are one table.
///
/// Only requests of live events have changes, so an initial list uses no memory here. A change is recorded before its
/// request is added to the queue, and the run of the request removes it.
#[derive(Clone)]
pub(crate) struct PendingChanges<R> {
    by_request: Arc<Mutex<HashMap<R, ChangedObjects>>>,
}

impl<R: RequestKey> PendingChanges<R> {
    pub(crate) fn new() -> Self {
        Self {
            by_request: Arc::default(),
        }
    }

    pub(crate) fn record<'a>(
        &self,
        requests: impl Iterator<Item = &'a R>,
        changed: &Arc<ChangedObject>,
    ) {
        let mut by_request = self.by_request.lock();
        for request in requests {
            match by_request.get_mut(request) {
                Some(changes) => changes.add(changed),
                None => by_request.entry(request.clone()).or_default().add(changed),
            }
        }
    }

    /// Removes and returns the changed objects of a request that a worker has taken from the queue.
    pub(crate) fn take(&self, request: &R) -> ChangedObjects {
        let mut by_request = self.by_request.lock();
        let changes = by_request.remove(request).unwrap_or_default();
        if by_request.is_empty() && by_request.capacity() > KEPT {
            *by_request = HashMap::new();
        }
        changes
    }
}

/// The largest capacity, in requests, that an empty table keeps. Without this limit, a burst of events would occupy
/// memory for good.
const KEPT: usize = 1024;
