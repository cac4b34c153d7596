//! Machine: measures the duration and the number of items of lists and watches.

use std::time::Instant;

use crate::metrics::Counters;
use crate::state::ListCause;

/// The measurements of the present list and watch.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    counters: Counters,
    listing: Option<Instant>,
    watch: Option<OpenRequest>,
}

#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    since: Instant,
    events: usize,
}

impl RequestMetrics {
    pub(crate) fn new(counters: Counters) -> Self {
        Self {
            counters,
            listing: None,
            watch: None,
        }
    }

    /// Starts the measurement of a list, ordinary or streaming.
    pub(crate) fn begin_list(&mut self, cause: ListCause, now: Instant) {
        self.counters.inc(|all| &all.lists);
        if let Some(gauges) = self.counters.gauges() {
            gauges.note_list(cause, now);
        }
        self.listing = Some(now);
    }

    pub(crate) fn complete_list(&mut self, items: usize, now: Instant) {
        if let Some(since) = self.listing.take() {
            self.counters.listed(items, now - since);
        }
    }

    pub(crate) fn ask_watch(&self) {
        self.counters.inc(|all| &all.watches);
    }

    pub(crate) fn open_watch(&mut self, now: Instant) {
        self.watch = Some(OpenRequest {
            since: now,
            events: 0,
        });
    }

    pub(crate) fn count_event(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.events += 1;
        }
    }

    pub(crate) fn end_watch(&mut self, now: Instant) {
        if let Some(OpenRequest { since, events }) = self.watch.take() {
            self.counters.watched(events, now - since);
        }
    }

    pub(crate) fn fail(&self, reason: &str) {
        self.counters.failure(reason);
    }
}
