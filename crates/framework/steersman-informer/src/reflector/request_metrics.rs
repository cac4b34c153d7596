//! Machine: the duration and the size of lists and watches, counted as they end.

use std::time::{Duration, Instant};

use crate::metrics::Counters;

/// The measurements of the list and the watch in flight.
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
    pub(crate) fn begin_list(&mut self, now: Instant) {
        self.counters.list();
        self.listing = Some(now);
    }

    /// Ends the measurement of a list.
    pub(crate) fn complete_list(&mut self, items: usize, now: Instant) {
        if let Some(since) = self.listing.take() {
            self.counters.listed(items, now - since);
        }
    }

    /// Counts a requested watch.
    pub(crate) fn ask_watch(&self) {
        self.counters.watch();
    }

    /// Starts the measurement of an open watch.
    pub(crate) fn open_watch(&mut self, now: Instant) {
        self.watch = Some(OpenRequest {
            since: now,
            events: 0,
        });
    }

    /// Counts an event of the watch.
    pub(crate) fn count_event(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.events += 1;
        }
    }

    /// Ends the measurement of the watch, if it was open.
    pub(crate) fn end_watch(&mut self, now: Instant) {
        if let Some(OpenRequest { since, events }) = self.watch.take() {
            let open: Duration = now - since;
            self.counters.watched(events, open);
        }
    }

    /// Counts a failed request.
    pub(crate) fn fail(&self, reason: &str) {
        self.counters.failure(reason);
    }
}
