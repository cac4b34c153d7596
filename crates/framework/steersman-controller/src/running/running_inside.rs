//! Handle: what a running controller shows of its queue, its events and its reconciles.

use std::sync::Arc;

use steersman_object::ObjectKey;
use steersman_workqueue::{KeyReport, Queue, QueueReport};

use crate::context::event_journal::EventJournal;
use crate::context::loop_watch::LoopWatch;
use crate::journal::recent::RecentReconcile;
use crate::journal::{ErrorGroup, Inside, JournalEvent, LoopReport, ReconcileRate};
use crate::request::{RequestKey, requested_object};
use crate::worker::recent_reconciles::RecentReconciles;

/// The parts of a running controller that it shows.
pub(super) struct RunningInside<R: RequestKey> {
    pub(super) queue: Queue<R>,
    pub(super) recent: RecentReconciles<R>,
    pub(super) journal: Option<EventJournal<R>>,
    pub(super) loops: Arc<LoopWatch>,
}

impl<R: RequestKey> Inside for RunningInside<R> {
    fn queue(&self, most: usize) -> QueueReport<String> {
        // The requests are formatted outside the lock of the queue.
        self.queue
            .report(most)
            .map(|request| format!("{request:?}"))
    }

    fn find(&self, object: &ObjectKey) -> Option<KeyReport<String>> {
        let is_for = |request: &R| requested_object(request).is_some_and(|(_, key)| key == object);
        let found = self.queue.find(is_for)?;
        Some(found.map(|request| format!("{request:?}")))
    }

    fn events(&self, object: Option<&ObjectKey>) -> Vec<JournalEvent> {
        let journal = self.journal.as_ref();
        journal
            .map(|journal| journal.read(object))
            .unwrap_or_default()
    }

    fn errors(&self) -> Vec<ErrorGroup> {
        self.recent.errors()
    }

    fn slowest(&self) -> Vec<RecentReconcile> {
        self.recent.slowest()
    }

    fn rate(&self) -> ReconcileRate {
        self.recent.rate()
    }

    fn loops(&self) -> Vec<LoopReport> {
        self.loops.reports()
    }
}
