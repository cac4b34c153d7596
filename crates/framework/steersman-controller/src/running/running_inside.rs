//! Handle: what a running controller shows of its queue, its events and its reconciles.

use std::sync::Arc;

use steersman_client::RequestId;
use steersman_workqueue::{KeyReport, Queue, QueueReport};

use crate::context::event_journal::EventJournal;
use crate::context::loop_watch::LoopWatch;
use crate::journal::recent::RecentReconcile;
use crate::journal::{
    ErrorGroup, Inside, JournalEvent, LoopReport, ReconcileRate, ReconcileStep, SoughtObject,
};
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

    fn find(&self, object: SoughtObject<'_>) -> Option<KeyReport<String>> {
        let found = self.queue.find(|request| is_for(request, object))?;
        Some(found.map(|request| format!("{request:?}")))
    }

    fn recent(&self, object: Option<SoughtObject<'_>>, most: usize) -> Vec<RecentReconcile> {
        let is_wanted = |request: &R| object.is_none_or(|object| is_for(request, object));
        self.recent.newest(most, is_wanted)
    }

    fn running_steps(&self, object: SoughtObject<'_>) -> Vec<ReconcileStep> {
        let journal = self.journal.as_ref();
        let is_wanted = |id: &RequestId| {
            let request = id.key::<R>();
            request.is_some_and(|request| is_for(request, object))
        };
        let steps = journal.map(|journal| journal.steps.running(is_wanted));
        steps.unwrap_or_default()
    }

    fn open_steps(&self) -> Vec<(String, ReconcileStep)> {
        let journal = self.journal.iter();
        // The requests are formatted outside the lock of the journal.
        let open = journal.flat_map(|journal| journal.steps.open(|_| true));
        let with_text = open.filter_map(|(id, step)| Some((format!("{:?}", id.key::<R>()?), step)));
        with_text.collect()
    }

    fn events(&self, object: Option<SoughtObject<'_>>) -> Vec<JournalEvent> {
        let journal = self.journal.as_ref();
        journal
            .map(|journal| journal.read(object))
            .unwrap_or_default()
    }

    fn errors(&self) -> Vec<ErrorGroup> {
        self.recent.errors()
    }

    fn last_failures(&self, requests: &[String]) -> Vec<Option<String>> {
        self.recent.last_failures(requests)
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

fn is_for<R: RequestKey>(request: &R, object: SoughtObject<'_>) -> bool {
    requested_object(request).is_some_and(|(cluster, key)| object.is(cluster, key))
}
